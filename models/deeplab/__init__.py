"""DeepLab v3+ for the segmentation of photos (Chen et al. 2018, arXiv:1802.02611)."""

from mtf_imaging.models.deeplab.network import DeepLab
from mtf_imaging.models.deeplab.task import SemanticSegmentation

__all__ = ["DeepLab", "SemanticSegmentation"]
