"""Networks of Keras and TensorFlow, unchanged, as functions of named tensors."""

from mtf_imaging.networks.loading import load
from mtf_imaging.networks.network import Network
from mtf_imaging.networks.task import NetworkTask, task

__all__ = ["Network", "NetworkTask", "load", "task"]
