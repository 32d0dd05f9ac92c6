"""The description of a data set: the channels of its images and the meaning of its labels."""

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.intensities.schemes import Intensity, channel_intensity
from mtf_imaging.errors import DataError

BACKGROUND = 0
UNCLEAR = 255  # see `Description.clear_labels`
_MARGIN = 1e-5  # of the largest value; rounding errors are smaller
LITS_RULES, ANY_RULES = "lits", "any"


@dataclass(frozen=True)
class Description:
    """The channels, labels and masks of a data set.

    A mask is a set of labels that is predicted or scored as one structure. Masks may overlap: in LiTS, the liver
    includes its lesions.

    Attributes:
      channels: name of each image channel, for instance `("CT",)` or `("FLAIR", "T1w")`.
      labels: {name: value} of all labels except the background, which is 0, in ascending order of the values 1, 2, ...
      masks: {name: label values} of the scored masks, from the whole to its parts.
      region_order: for training by regions, the label that the voxels of each mask get, in the order in which masks are
        painted over each other (nnU-Net's `regions_class_order`); the network then predicts each mask with a sigmoid.
        None if the labels exclude each other; the network then predicts the labels with a softmax.
      ignore: value of the label whose voxels are ignored in training and scoring, or None.
      stored: {label: its value in files of segmentations} if these values have gaps, as in BraTS; {} if files store the
        labels themselves.
      lesions: names of the masks whose connected components are scored one by one.
      rules: "lits" for the LiTS challenge's rules and official scores, or "any".
      file_ending: the ending of the file names, for instance ".nii.gz" or ".png".
      intensities: the intensity scheme of each channel. By default, it follows from the channel name.
      crops_to_nonzero: whether images are cropped to the box of their nonzero voxels before they are resampled, for
        images with a removed background, such as skull-stripped MR images.
      has_logits: whether the network predicts logits, which are averaged and interpolated before they become labels or
        probabilities, as in nnU-Net. No file states it.
    """

    channels: tuple[str, ...]
    labels: Mapping[str, int]
    masks: Mapping[str, tuple[int, ...]]
    region_order: tuple[int, ...] | None = None
    ignore: int | None = None
    lesions: tuple[str, ...] = ()
    rules: str = ANY_RULES
    file_ending: str = ".nii.gz"
    intensities: tuple[Intensity, ...] = ()
    has_logits: bool = False
    stored: Mapping[int, int] = dataclasses.field(default_factory=dict)
    crops_to_nonzero: bool = False

    def __post_init__(self) -> None:
        if not self.intensities:
            object.__setattr__(self, "intensities", tuple(map(channel_intensity, self.channels)))
        for name in ("labels", "masks", "stored"):
            object.__setattr__(self, name, types.MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple:
        """Returns a form for pickle, which cannot store read-only mappings."""
        values = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return Description, tuple(dict(value) if isinstance(value, Mapping) else value for value in values)

    @property
    def has_regions(self) -> bool:
        """Whether the network predicts each mask with a sigmoid, instead of the labels with a softmax."""
        return self.region_order is not None

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """{name: labels} of the values that the network predicts per voxel: masks, or background and labels."""
        if self.has_regions:
            return dict(self.masks)
        return {"background": (BACKGROUND,)} | {name: (value,) for name, value in self.labels.items()}

    @property
    def num_outputs(self) -> int:
        """The number of values that the network predicts per voxel."""
        return len(self.outputs)

    def mask(self, name: str, labels: np.ndarray) -> np.ndarray:
        """Returns the voxels of a mask.

        Args:
          name: name of the mask.
          labels: an array of labels.

        Returns:
          A bool array of the same shape.
        """
        first, *others = self.masks[name]
        mask = labels == first
        for value in others:  # a table lookup would convert the labels to 8 bytes per voxel
            mask |= labels == value
        return mask

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Returns the probabilities of a network's results: the softmax or sigmoid of logits, others unchanged.

        Args:
          values: `[..., num_outputs]`.
        """
        if not self.has_logits:
            return values
        from scipy.special import expit, softmax  # slow to import, and only maps need it

        values = np.asarray(values, np.float32)
        return expit(values) if self.has_regions else softmax(values, axis=-1)

    @property
    def of_probabilities(self) -> "Description":
        """The description of a network that predicts probabilities, with the same labels."""
        return dataclasses.replace(self, has_logits=False)

    @property
    def _threshold(self) -> float:
        return 0.0 if self.has_logits else 0.5

    def to_labels(self, values: np.ndarray) -> np.ndarray:
        """Returns the most probable label of each voxel.

        Args:
          values: `[..., num_outputs]`, probabilities or logits.

        Returns:
          uint8 `[...]`. With regions, each mask with a probability above 0.5 is painted over the previous ones.
        """
        labels = np.zeros(values.shape[:-1], np.uint8)
        if self.region_order is None:
            highest, *others = np.ascontiguousarray(np.moveaxis(values, -1, 0))  # np.argmax takes longer than this copy
            for index, value in enumerate(others, 1):
                np.maximum(labels, (value > highest) * np.uint8(index), out=labels)
                highest = np.maximum(highest, value)
            return labels
        for index, value in enumerate(self.region_order):
            labels[values[..., index] > self._threshold] = value
        return labels

    def clear_labels(self, values: np.ndarray) -> np.ndarray:
        """Returns the labels of `to_labels`, but `UNCLEAR` where the decision is close.

        Weighted averages of voxels with one clear label have this label, even with rounding errors.
        """
        labels = self.to_labels(values)
        margin = _MARGIN * max(1.0, float(values.max(initial=0)), -float(values.min(initial=0)))
        if self.region_order is None:
            highest, *others = np.moveaxis(values, -1, 0)
            second = np.full_like(highest, -np.inf)
            for value in others:
                second = np.maximum(second, np.minimum(highest, value))
                highest = np.maximum(highest, value)
            is_close = highest - second < margin
        else:
            is_close = (abs(values - self._threshold) < margin).any(axis=-1)
            is_close |= len({*self.region_order}) < len(self.region_order)  # voxels of one label differ in their masks
        labels[is_close] = UNCLEAR
        return labels

    def check_lesions(self, where: str) -> None:
        """Raises DataError if a name in `lesions` is not a mask.

        Args:
          where: the file that names them, for the message.
        """
        unknown = [name for name in self.lesions if name not in self.masks]
        if unknown:
            what = f"lesions names {', '.join(unknown)}, but the labels are {', '.join(self.masks)}"
            raise DataError(f"{where}: {what}. Fix: use the names of labels.")


#: The LiTS description: one CT channel, and a liver that includes its lesions.
LITS = Description(
    channels=("CT",),
    labels={"liver": 1, "lesion": 2},
    masks={"liver": (1, 2), "lesion": (2,)},
    lesions=("lesion",),
    rules=LITS_RULES,
)
