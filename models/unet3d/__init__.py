"""The 3D U-Net and its tasks.

The network follows Hou et al. 2019, "High Resolution Medical Image Analysis with Spatial Partitioning".
"""

from mtf_imaging.models.unet3d.lits import LiverTumorSegmentation, build_task
from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.segmentation import Segmentation

__all__ = ["LiverTumorSegmentation", "Segmentation", "UNet3D", "build_task"]
