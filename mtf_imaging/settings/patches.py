"""The patches for training, and the sliding window for predictions."""

from collections.abc import Mapping

from mtf_imaging.settings.setting import Settings, setting, settings
from mtf_imaging.settings.values import Resolution

WHOLE = "none"  # no sliding window: the network computes the whole volume at once


@settings
class PatchSetting(Settings):
    """The size of patches.

    Attributes:
      patch: train on patches of this size instead of whole volumes: voxels along x, y and z of the records, for
        instance 64 or x:64,y:64,z:32. Each sample is a patch at a random place of a case; a patch can be split by the
        layout like a whole volume. Default: whole volumes.
    """

    patch: Resolution | None = setting(default=None, unit="voxels", flag=True, recorded=True)


@settings
class PatchSettings(PatchSetting):
    """The patches for training.

    Attributes:
      centered_patches: the share of the patches whose center is a voxel of a label, drawn at random. As in nnU-Net, the
        share is rounded to whole patches of each batch, at least one of a batch of 2 or 3 by default; in batches of
        one, each patch is centered with this probability. The other patches lie anywhere in the volume.
      centered_labels: {label: weight}, the frequency with which each label is chosen for a center, relative to other
        labels in the same case. Labels that are not named are never chosen. Default: all labels alike.
    """

    centered_patches: float = setting(default=1 / 3, least=0, most=1, needs="patch", example="0.5")
    centered_labels: Mapping[str, float] | None = setting(
        default=None, needs="patch", example='{"lesion": 2, "liver": 1}'
    )


@settings
class SlidingWindowSettings(Settings):
    """The sliding window of a prediction.

    Attributes:
      sliding_window: predict with a window of this size that slides over the volume, for instance 64 or x:64,y:64,z:32,
        and average the probabilities of overlapping windows with Gaussian weights; none for the whole volume at once.
        Default: the patch size of the training run, or none for a network that was trained on whole volumes.
      window_step: distance between neighboring windows, as a share of the window size.
    """

    sliding_window: Resolution | None = setting(default=None, unit="voxels", flag="window")
    window_step: float = setting(default=0.5, above=0, most=1, flag=True)
