"""The 3D U-Net of Hou et al. 2019 ("High Resolution Medical Image Analysis with Spatial Partitioning") and its task."""

from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.task import LiverTumorSegmentation

__all__ = ["LiverTumorSegmentation", "UNet3D"]
