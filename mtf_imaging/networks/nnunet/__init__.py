"""Trained models of nnU-Net 2, unchanged."""

from mtf_imaging.networks.nnunet.files import checkpoints, is_nnunet, nnunet_network
from mtf_imaging.networks.nnunet.preprocessing import preprocessing

__all__ = ["checkpoints", "is_nnunet", "nnunet_network", "preprocessing"]
