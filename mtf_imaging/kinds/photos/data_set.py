"""A training data set of photos with label images."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.pixels.batches import check_augmentation, crop_batches, draw_crop
from mtf_imaging.data.pixels.color_jitter import UNCHANGED, Colors, draw_colors, jitter_colors
from mtf_imaging.data.pixels.crop_axis import check_size, crop_axis
from mtf_imaging.data.pixels.crops import bilinear, nearest, pad_to
from mtf_imaging.data.pixels.photo_files import photo_size
from mtf_imaging.data.pixels.scaling import SCALINGS
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import Photo, find_photos, photo_description
from mtf_imaging.kinds.photos.reading.label_counts import count_labels
from mtf_imaging.kinds.photos.reading.label_images import read_labeled_photo
from mtf_imaging.parameters import check_parameters, parameter


class CropReader:
    """Reads crops of photos, padded to one size.

    An unreadable photo results in a crop of padding, and its error is stored.

    Args:
      photos: the photos.
      description: the classes and the scaling.
      size: height and width of the crops.

    Attributes:
      photos: the photos.
      errors: {sample number: error} of unreadable photos.
    """

    def __init__(self, photos: Sequence[Photo], description: PhotoDescription, size: tuple[int, int]):
        self.photos = photos
        self.errors: dict[int, MtfImagingError] = {}
        self._description, self._size = description, size

    def crop(self, sample, at, scale, places, colors: Colors = UNCHANGED) -> tuple:
        """Returns the crop of a sample.

        Args:
          sample: Tensor[] int64, the sample number.
          at: Tensor[] int64, the index of the photo.
          scale: Tensor[] float32, the factor of the height and width.
          places: Tensor[2] float32 in 0..1, the position of the crop.
          colors: the color changes.

        Returns:
          The image, Tensor[height, width, 3] float32, and the labels, Tensor[height, width] int32.
        """
        types = [tf.uint8, tf.uint8, tf.float32, tf.float32]
        pixels, labels, rows, columns = tf.numpy_function(self._read, [sample, at, scale, places], types)
        pixels.set_shape([None, None, 3])
        labels.set_shape([None, None])
        rows.set_shape([None])
        columns.set_shape([None])
        image = self._description.scale(jitter_colors(bilinear(pixels, rows, columns), colors))
        labels = nearest(labels, rows, columns)
        padded = pad_to(image, self._size, 0.0), pad_to(labels, self._size, self._description.ignore_label)
        return padded[0], tf.cast(padded[1], tf.int32)

    def _read(self, sample: int, at: int, scale: float, places: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the region that a crop needs, its labels, and the centers of the crop's rows and columns."""
        photo = self.photos[at]
        try:
            height, width = photo_size(photo.image)
            rows = crop_axis(height, float(scale), self._size[0], float(places[0]))
            columns = crop_axis(width, float(scale), self._size[1], float(places[1]))
            pixels, labels = read_labeled_photo(photo, self._description, (rows.region, columns.region))
        except MtfImagingError as error:
            # The consumer raises the error. If this function did, TensorFlow would log a traceback and replace it.
            self.errors[int(sample)] = error
            half = np.full(1, 0.5, np.float32)
            return np.zeros((1, 1, 3), np.uint8), np.zeros((1, 1), np.uint8), half, half
        return pixels, labels, rows.centers, columns.centers


@dataclass(frozen=True)
class PhotoAugmentation:
    """Scales and flips photos and their labels, and changes colors.

    The random numbers depend only on the run's seed and the sample number.

    Attributes:
      min_scale, max_scale: bounds of the factor that multiplies the height and width of a photo.
      scale_step: difference between possible factors, which include both bounds; 0 for any factor between the
        bounds.
      flip: whether to mirror left and right with probability 1/2.
      brightness, contrast, saturation: the largest random color changes; a factor is drawn from 1 - x to 1 + x,
        and 0 changes nothing. torchvision's `RandomPhotometricDistort`, which follows SSD, uses 0.125, 0.5 and 0.5
        in half of the samples.
      hue: the largest random hue change, as a fraction of the color circle; `RandomPhotometricDistort` uses 0.05.
    """

    min_scale: float = parameter(0.5, least=0.01)
    max_scale: float = parameter(2.0, least=0.01)
    scale_step: float = parameter(0.25, least=0)
    flip: bool = True
    brightness: float = parameter(0.0, least=0, most=1)
    contrast: float = parameter(0.0, least=0, most=1)
    saturation: float = parameter(0.0, least=0, most=1)
    hue: float = parameter(0.0, least=0, most=0.5)

    def __post_init__(self):
        check_augmentation(self, self.min_scale, self.max_scale)

    @property
    def scales(self) -> tuple[float, ...] | None:
        """The possible factors; None for any factor between the bounds."""
        if self.min_scale == self.max_scale:
            return (self.min_scale,)
        if not self.scale_step:
            return None
        count = math.floor((self.max_scale - self.min_scale) / self.scale_step + 1e-6) + 1
        return tuple(np.linspace(self.min_scale, self.max_scale, max(2, count)).tolist())

    def draw_scale(self, draws: Draws):
        """Returns the factor of a sample, Tensor[] float32."""
        scales = self.scales
        if scales is None:
            return draws.uniform("scale", self.min_scale, self.max_scale)
        number = tf.cast(draws.uniform("scale") * len(scales), tf.int32)
        return tf.constant(scales, tf.float32)[tf.minimum(number, len(scales) - 1)]

    def draw_flip(self, draws: Draws):
        """Returns whether to mirror a sample, Tensor[] bool."""
        return draws.chance("flip", 0.5 if self.flip else 0.0)


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
    scaling: str | None = parameter(None, choices=(None, *SCALINGS))
    size: tuple[int, int] = (513, 513)

    def __post_init__(self):
        check_parameters(self)

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
          DataError: the folder is invalid. The iterator raises it if a photo or its label image is invalid.
          ConfigError: `sizes` are not two positive integers, `batch_size` is below 1, or `start_step` is below 0.
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
