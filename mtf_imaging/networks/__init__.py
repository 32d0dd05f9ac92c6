"""Networks of Keras and TensorFlow, unchanged, as functions of named tensors."""

from mtf_imaging.networks.loading import load
from mtf_imaging.networks.network import Network

__all__ = ["Network", "load"]
