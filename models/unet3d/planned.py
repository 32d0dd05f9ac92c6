"""The task of a planned job."""

from mtf_imaging.models.unet3d.lits import LiverTumorSegmentation
from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.segmentation import Segmentation

_LITS_RULES = "lits"


def build_task(description, network, loss):
    """Builds the task for a data set, for `mi.jobs.plan`.

    Args:
      description: the channels, labels and masks of the data set, an `mi.data.Description`.
      network: keyword arguments of `UNet3D`.
      loss: keyword arguments of the task.

    Returns:
      A `LiverTumorSegmentation` for LiTS, and a `Segmentation` for other data sets.
    """
    if description.rules == _LITS_RULES:
        return LiverTumorSegmentation(UNet3D(**network), **loss)
    return Segmentation(UNet3D(**network), labels=description, **loss)
