"""Classification of video clips with factorized convolutions (Tran et al. 2018, arXiv:1711.11248)."""

from mtf_imaging.models.video.generated import GeneratedClips
from mtf_imaging.models.video.network import R2Plus1D

__all__ = ["GeneratedClips", "R2Plus1D"]
