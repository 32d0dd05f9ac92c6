"""Networks of others, unchanged, as functions of named tensors."""

from mtf_imaging.networks import nnunet
from mtf_imaging.networks.loading import load
from mtf_imaging.networks.network import Network
from mtf_imaging.networks.task import NetworkTask, task

__all__ = ["Network", "NetworkTask", "load", "nnunet", "task"]
