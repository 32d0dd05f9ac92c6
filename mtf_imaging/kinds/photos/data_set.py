"""Photos with label images as a data set to train on."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.elements import elements
from mtf_imaging.data.pixels.crop_axis import check_size
from mtf_imaging.data.pixels.scaling import fault_of_scaling
from mtf_imaging.data.records.pipeline import case_of_sample
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.kinds.photos.augmentation import PhotoAugmentation
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.crop_reader import CropReader
from mtf_imaging.kinds.photos.reading.folders import Photo, find_photos, photo_description
from mtf_imaging.kinds.photos.reading.label_counts import count_labels

_PREFETCH = 2  # batches
_LARGE = 2**21  # pixels; larger crops are read one at a time and one batch ahead, to need less memory


@dataclass(frozen=True)
class Photos:
    """A data set of photos with label images, in a folder as `find_photos` describes.

    `mtf_imaging.training.data_set` describes the interface.

    Attributes:
      split: the photos to train on: the name of a list of the folder, or None for all photos.
      held_out_split: the photos that are scored during training: the name of a list, or None for all photos.
      augmentation: the random scales and flips; None for photos as they are. Crops are random in any case.
      scaling: "unit" maps pixel values to -1..1; "mean" subtracts the mean of ImageNet; "imagenet" also divides by the
        standard deviation. None for the scaling that `classes.json` names, which is "unit" by default.
      size: height and width of the crops.
    """

    split: str | None = "train"
    held_out_split: str | None = "val"
    augmentation: PhotoAugmentation | None = None
    scaling: str | None = None
    size: tuple[int, int] = (513, 513)

    def __post_init__(self):
        if self.augmentation is not None and not isinstance(self.augmentation, PhotoAugmentation):
            raise ConfigError(
                f"Photos.augmentation is of the class {type(self.augmentation).__name__}, which does not change "
                "photos. Fix: use a PhotoAugmentation."
            )
        fault = self.scaling is not None and fault_of_scaling(self.scaling)
        if fault:
            raise ConfigError(f"Photos.{fault}")
        object.__setattr__(self, "size", check_size("Photos.size", self.size))

    def description(self, data_dir: str | Path) -> PhotoDescription:
        """Returns the classes of a folder, with the scaling of this data set."""
        description = photo_description(data_dir)
        return description if self.scaling is None else dataclasses.replace(description, scaling=self.scaling)

    def photos(self, data_dir: str | Path) -> list[Photo]:
        """Returns the photos to train on."""
        return find_photos(data_dir, self.split)

    def held_out_photos(self, data_dir: str | Path) -> list[Photo]:
        """Returns the photos to score during training."""
        return find_photos(data_dir, self.held_out_split)

    def sizes(self, data_dir: str | Path) -> tuple[int, int]:
        """Returns the height and width of the crops."""
        return self.size

    def label_counts(self, data_dir: str | Path) -> np.ndarray:
        """Returns the number of pixels of each label, int64 `[256]`, in up to 64 of the photos to train on."""
        return count_labels(self.photos(data_dir), self.description(data_dir))

    def batches(
        self, data_dir: str | Path, *, batch_size: int, sizes: tuple[int, int], seed: int, start_step: int
    ) -> Iterator[dict]:
        """Yields shuffled batches of crops without end.

        A photo is scaled by a random factor, padded to the size of a crop at the bottom and on the right, cropped at a
        random position, and mirrored. Padding is 0 in the image and `ignore_label` in the labels. Only the pixels that
        the crop needs are scaled; see `crops`.

        Sample s of a run belongs to batch s // batch_size. As for records, it depends only on s and the seed, and each
        photo occurs once per epoch.

        Args:
          data_dir: the folder.
          batch_size: number of crops in a batch.
          sizes: height and width of the crops.
          seed: seed of the order and of the augmentation.
          start_step: number of the first batch.

        Yields:
          `{"image": Tensor[batch, height, width, 3] float32, "labels": Tensor[batch, height, width] int32, "cases":
          list of keys}`.

        Raises:
          DataError: the folder is invalid, `batch_size` is below 1, or `start_step` is below 0. The iterator raises it
            if a photo or its label image is invalid.
          ConfigError: `sizes` are not two positive integers.
        """
        if batch_size < 1 or start_step < 0:
            raise DataError(
                f"batch_size {batch_size}, start_step {start_step}: the batch size must be at least 1, and the start "
                "step at least 0. Fix: choose values in this range."
            )
        description, photos = self.description(data_dir), self.photos(data_dir)
        height, width = check_size("Photos.size", sizes)
        reader = CropReader(photos, description, (height, width))
        dataset = tf.data.Dataset.range(start_step * batch_size, tf.int64.max)
        large = height * width > _LARGE
        dataset = dataset.map(
            lambda sample: self._load(sample, reader, seed),
            num_parallel_calls=None if large else tf.data.AUTOTUNE,
            deterministic=None if large else True,
        )
        dataset = dataset.batch(batch_size, drop_remainder=True).prefetch(1 if large else _PREFETCH)
        return _batches(dataset, reader)

    def _load(self, sample, reader: CropReader, seed: int) -> dict:
        """Returns one sample, without the dimension `batch`."""
        at = case_of_sample(sample, len(reader.photos), seed)
        draws = Draws(seed, sample)
        scale, mirrored = tf.constant(1.0), tf.constant(False)
        if self.augmentation is not None:
            scale, mirrored = self.augmentation.draw_scale(draws), self.augmentation.draw_flip(draws)
        image, labels = reader.crop(sample, at, scale, draws.uniform("crop", shape=(2,)))
        image, labels = (tf.cond(mirrored, lambda x=x: tf.reverse(x, [1]), lambda x=x: x) for x in (image, labels))
        return {"image": image, "labels": labels, "files": at, "samples": sample}


def _batches(dataset: tf.data.Dataset, reader: CropReader) -> Iterator[dict]:
    for batch in elements(dataset):
        for sample in batch.pop("samples").numpy():
            if int(sample) in reader.errors:
                raise reader.errors[int(sample)]
        batch["cases"] = [reader.photos[at].key for at in batch.pop("files").numpy()]
        yield batch
