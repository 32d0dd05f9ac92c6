"""The 3D U-Net of Hou et al. 2019 ("High Resolution Medical Image Analysis with Spatial Partitioning") and its tasks."""

from mtf_imaging.models.unet3d.lits import LiverTumorSegmentation
from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.segmentation import Segmentation

__all__ = ["LiverTumorSegmentation", "Segmentation", "UNet3D"]
