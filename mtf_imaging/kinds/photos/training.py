"""Photos in training: the images to train on, and the scores of held-out photos."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.data.class_frequencies import evenly_spread
from mtf_imaging.data.description.differences import Difference
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.pixels.batches import cyclic_batches
from mtf_imaging.errors import DataError
from mtf_imaging.inference.network import Prediction
from mtf_imaging.kinds.batches import score_held_out
from mtf_imaging.kinds.file_images import FileTraining
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.description import (
    PhotoDescription,
    check_same_classes,
    photo_description_from_fields,
    photo_differences,
)
from mtf_imaging.kinds.photos.infer import PhotoInference, ReadPhoto, prediction_multiple
from mtf_imaging.kinds.photos.pictures import LabeledPhoto, comparison, overlay, shrink
from mtf_imaging.kinds.photos.reading.folders import Photo, find_photos, photo_description, splits
from mtf_imaging.kinds.photos.reading.label_counts import survey_photos
from mtf_imaging.kinds.photos.reading.label_images import read_labeled_photo
from mtf_imaging.kinds.photos.resize import pad_photo
from mtf_imaging.kinds.photos.scoring.confusion import Confusion, confusion

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


MAX_SIDE = 480  # pixels of the pictures of a data set
MEASURES = ("mean_iou", "pixel_accuracy")


@dataclass(frozen=True)
class HeldOutPhotos:
    """Mean IoU and pixel accuracy over the photos of a split, for `mtf_imaging.training.evaluation`.

    Each photo is predicted as a whole, at its own size. The pixels of all photos are pooled, as in `evaluate`.

    Attributes:
      split: the list of photos to score; None scores all photos with labels.
      scaling: the scaling of pixel values, as in training; None uses the scaling in the folder's description.
      crop: height and width of the crops in training; None uses the sizes of the training images.
      multiple: photos larger than the crop are padded to a multiple of this number.
      num_pictures: the number of photos with a picture.
      progress: whether to show a progress bar.
    """

    split: str | None = "val"
    scaling: str | None = None
    crop: tuple[int, int] | None = None
    multiple: int = 64
    num_pictures: int = 4
    progress: bool = True

    measures = MEASURES

    def open(self, eval_dir: str | Path, sizes: tuple[int, int]) -> Callable:
        """Finds the photos and returns a function that scores a network on them.

        Args:
          eval_dir: folder of the photos.
          sizes: height and width of the training images; used if `crop` is None.

        Returns:
          A function of the network, which takes images of the sizes that `padded_size` returns. It returns the measures
          by name and pictures of the first photos. The measures are NaN if the label images have only one of several
          classes.

        Raises:
          DataError: the folder has no photos with labels in this split.
        """
        description, photos, crop = self.description(eval_dir), self._photos(eval_dir), self.crop or sizes
        inference = PhotoInference(description, crop, self.multiple)

        def score(network: Callable[[np.ndarray], Prediction]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            pictures = {}

            def compare(number: int, read: ReadPhoto, result: np.ndarray) -> Confusion:
                assert read.reference is not None
                if number < self.num_pictures:
                    labeled = LabeledPhoto(read.pixels, result, read.reference)
                    pictures[f"photo {photos[number].key}"] = comparison(labeled, description)
                return confusion(result, read.reference, len(description.classes), description.ignore_label)

            steps = inference.steps(network, lambda photo: ReadPhoto(*read_labeled_photo(photo, description)))
            counted = score_held_out(steps, photos, compare, "photo", self.progress)
            total = sum(counted, Confusion.empty(len(description.classes)))
            values = {name: getattr(total, name) for name in MEASURES}
            if None in values.values():
                raise DataError(
                    f"{eval_dir}: every pixel of the {len(photos)} held-out photos is marked to be ignored. "
                    "Fix: add photos with labels to the split."
                )
            if len(description.classes) > 1 and np.count_nonzero(total.reference) == 1:
                values = dict.fromkeys(MEASURES, math.nan)  # a network that predicts a single class would be perfect
            return values, pictures

        return score

    def loss_batches(self, eval_dir: str | Path, *, batch_size: int, sizes: tuple[int, int]) -> Iterator[dict]:
        """Returns an iterator over all photos in batches, in order; the first photos fill up the last batch.

        Each photo is cropped at its center, or padded at its bottom and right.

        Args:
          eval_dir: folder of the photos.
          batch_size: photos in a batch.
          sizes: height and width of the training images; used if `crop` is None.

        Yields:
          "image", float32 `[batch, height, width, 3]`; "labels", int32 `[batch, height, width]`; "cases", the keys.
        """
        description, photos, crop = self.description(eval_dir), self._photos(eval_dir), self.crop or sizes
        for batch in cyclic_batches(photos, batch_size):
            pairs = [central_crop(*read_labeled_photo(photo, description), crop, description) for photo in batch]
            yield {
                "image": np.stack([image for image, _ in pairs]),
                "labels": np.stack([labels for _, labels in pairs]),
                "cases": [photo.key for photo in batch],
            }

    def description(self, eval_dir: str | Path) -> PhotoDescription:
        """Returns the description of the classes in a folder, with the scaling of this evaluation."""
        description = photo_description(eval_dir)
        return description if self.scaling is None else dataclasses.replace(description, scaling=self.scaling)

    def _photos(self, eval_dir: str | Path) -> list[Photo]:
        return find_photos(eval_dir, self.split)


def central_crop(
    image: np.ndarray, labels: np.ndarray, crop: tuple[int, int], description: PhotoDescription
) -> tuple[np.ndarray, np.ndarray]:
    """Crops the middle of a photo; pads a smaller photo at its bottom and right.

    Args:
      image: uint8 `[height, width, 3]`.
      labels: classes and the ignore label, `[height, width]`.
      crop: height and width of the result.
      description: the scaling, the value of padding and the ignore label.

    Returns:
      The image after scaling, float32 `[height, width, 3]`, and the labels, int32 `[height, width]`. Padding has the
      ignore label.
    """
    starts = [max(0, (n - c) // 2) for n, c in zip(labels.shape, crop, strict=True)]
    middle = tuple(slice(start, start + c) for start, c in zip(starts, crop, strict=True))
    image, labels = image[middle], labels[middle]
    missing = [(0, c - n) for n, c in zip(labels.shape, crop, strict=True)]
    padded = np.pad(labels.astype(np.int32), missing, constant_values=description.ignore_label)
    return description.scale(pad_photo(image, crop, description)), padded


class Training(FileTraining[PhotoDescription]):
    """The photos of a data set."""

    any_size = True
    data_sets = Photos
    kind = "photos"

    def measure(self, description: PhotoDescription) -> str:
        return MEASURES[0]

    def differences(self, description: PhotoDescription, fields: dict | None, where: str) -> list[Difference]:
        return photo_differences(description, photo_description_from_fields(fields, where))

    def label_survey(self, folder: str | Path, description: PhotoDescription, is_held_out: bool) -> LabelSurvey:
        split = self.held_out_split(folder) if is_held_out else self.split
        return survey_photos(find_photos(folder, split), photo_description(folder))

    def pictures(
        self, folder: str | Path, description: PhotoDescription, most: int
    ) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        pictures = {}
        for photo in evenly_spread(find_photos(folder, self.split), most):
            image, labels = (shrink(part, MAX_SIDE) for part in read_labeled_photo(photo, description))
            pictures[photo.key] = overlay(image, labels, description)
        colors = zip(description.classes, description.colors, strict=True)
        return pictures, {name: "#{:02x}{:02x}{:02x}".format(*color) for name, color in colors}

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        return self._data_set.held_out_split if splits(Path(eval_dir)) else None

    def agreed(self, data_dir: str | Path, eval_dir: str | Path | None) -> list[str]:
        if not eval_dir:
            return []
        return [repr([photo.key for photo in find_photos(Path(eval_dir), self.held_out_split(eval_dir))])]

    def cases(self, data_dir: str | Path) -> dict[str, str | None]:
        return {photo.key: None for photo in self._data_set.photos(data_dir)}

    def evaluation(
        self, data_dir: str | Path, eval_dir: str | Path, description: PhotoDescription, task: "Task", progress: bool
    ) -> HeldOutPhotos:
        evaluation = HeldOutPhotos(
            self.held_out_split(eval_dir),
            scaling=description.scaling,
            multiple=prediction_multiple(task),
            progress=progress,
        )
        check_same_classes(eval_dir, evaluation.description(eval_dir), description)
        return evaluation
