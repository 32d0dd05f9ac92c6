"""A training data set of photos with label images."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.pixels.batches import check_data_set, crop_batches, draw_crop
from mtf_imaging.data.pixels.color_jitter import draw_colors
from mtf_imaging.data.pixels.crop_axis import check_size
from mtf_imaging.kinds.photos.augmentation import PhotoAugmentation
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.crop_reader import CropReader
from mtf_imaging.kinds.photos.reading.folders import Photo, find_photos, photo_description
from mtf_imaging.kinds.photos.reading.label_counts import count_labels


@dataclass(frozen=True)
class Photos:
    """A data set of photos with label images, in a folder as `find_photos` describes.

    `mtf_imaging.training.data_set` describes the interface.

    Attributes:
      split: the photos to train on: the name of a list in the folder, or None for all photos.
      held_out_split: the photos that are scored during training: the name of a list, or None for all photos.
      augmentation: the random scales, flips and colors; None for unchanged photos. Crops are random in any case.
      scaling: "unit" maps pixel values to -1..1; "mean" subtracts the ImageNet mean; "imagenet" also divides by the
        standard deviation. None for the scaling that `classes.json` names, which is "unit" by default.
      size: height and width of the crops.
    """

    split: str | None = "train"
    held_out_split: str | None = "val"
    augmentation: PhotoAugmentation | None = None
    scaling: str | None = None
    size: tuple[int, int] = (513, 513)

    def __post_init__(self):
        check_data_set(self, "Photos", "photos", PhotoAugmentation)

    def description(self, data_dir: str | Path) -> PhotoDescription:
        """Returns the classes of a folder, with the scaling of this data set."""
        description = photo_description(data_dir)
        return description if self.scaling is None else dataclasses.replace(description, scaling=self.scaling)

    def photos(self, data_dir: str | Path) -> list[Photo]:
        """Returns the training photos."""
        return find_photos(data_dir, self.split)

    def sizes(self, data_dir: str | Path) -> tuple[int, int]:
        """Returns the height and width of the crops."""
        return self.size

    def label_counts(self, data_dir: str | Path) -> np.ndarray:
        """Returns the number of pixels per label, int64 `[256]`, in up to 64 training photos."""
        return count_labels(self.photos(data_dir), self.description(data_dir))

    def batches(
        self, data_dir: str | Path, *, batch_size: int, sizes: tuple[int, int], seed: int, start_step: int
    ) -> Iterator[dict]:
        """Yields shuffled batches of crops endlessly.

        A photo is scaled by a random factor, padded to the size of a crop at the bottom and on the right, cropped at a
        random position, and mirrored, and its colors are changed. Padding is 0 in the image and `ignore_label` in the
        labels. Only the pixels that the crop needs are scaled; see `crops`.

        Sample s of a run belongs to batch s // batch_size. As for records, it depends only on s and the seed, and each
        photo occurs once per epoch.

        Args:
          data_dir: the folder.
          batch_size: number of crops in a batch.
          sizes: height and width of the crops.
          seed: seed for the order and the augmentation.
          start_step: number of the first batch.

        Yields:
          `{"image": Tensor[batch, height, width, 3] float32, "labels": Tensor[batch, height, width] int32, "cases":
          list of keys}`.

        Raises:
          DataError: the folder is invalid, `batch_size` is below 1, or `start_step` is below 0. The iterator raises it
            if a photo or its label image is invalid.
          ConfigError: `sizes` are not two positive integers.
        """
        description, photos, size = self.description(data_dir), self.photos(data_dir), check_size("Photos.size", sizes)
        reader = CropReader(photos, description, size)
        keys = [photo.key for photo in photos]
        return crop_batches(lambda at: self._load(at, reader, seed), keys, reader.errors, size, batch_size, start_step)

    def _load(self, sample, reader: CropReader, seed: int) -> dict:
        """Returns one sample, without the dimension `batch`."""
        at, scale, mirrored, places = draw_crop(sample, len(reader.photos), seed, self.augmentation)
        image, labels = reader.crop(sample, at, scale, places, draw_colors(sample, seed, self.augmentation))
        image, labels = (tf.cond(mirrored, lambda x=x: tf.reverse(x, [1]), lambda x=x: x) for x in (image, labels))
        return {"image": image, "labels": labels, "files": at}
