"""A training data set of images with objects."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.pixels.batches import check_augmentation, crop_batches, draw_crop
from mtf_imaging.data.pixels.color_jitter import UNCHANGED, Colors, draw_colors, jitter_colors
from mtf_imaging.data.pixels.crop_axis import check_size, crop_axis
from mtf_imaging.data.pixels.crops import bilinear, pad_to
from mtf_imaging.data.pixels.scaling import SCALINGS
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage, find_object_images, object_description
from mtf_imaging.kinds.objects.reading.images import read_object_image, upright_image
from mtf_imaging.kinds.objects.reading.native import fit_factor
from mtf_imaging.kinds.objects.reading.targets import make_targets, no_targets
from mtf_imaging.parameters import check_parameters, parameter


class ObjectReader:
    """Reads crops of images with their objects, padded to one size.

    An unreadable image results in a crop of padding, and its error is stored.

    Args:
      images: the images.
      description: the scaling of pixel values.
      size: height and width of the crops.
      max_boxes: the number of boxes.
      mask_size: height and width of the masks; 0 for no masks.

    Attributes:
      images: the images.
      errors: {sample number: error} of unreadable images.
    """

    def __init__(
        self,
        images: Sequence[ObjectImage],
        description: ObjectDescription,
        size: tuple[int, int],
        max_boxes: int,
        mask_size: int,
    ):
        self.images = images
        self.errors: dict[int, MtfImagingError] = {}
        self._description, self._size = description, size
        self._max_boxes, self._mask_size = max_boxes, mask_size

    def crop(self, sample, at, scale, places, mirrored, colors: Colors = UNCHANGED) -> dict:
        """Returns the crop of a sample and its targets.

        Args:
          sample: Tensor[] int64, the sample number.
          at: Tensor[] int64, the index of the image.
          scale: Tensor[] float32, the factor relative to the image that fits the size.
          places: Tensor[2] float32 in 0..1, the position of the crop.
          mirrored: Tensor[] bool, whether to mirror left and right.
          colors: the color changes.

        Returns:
          The image, the boxes, the classes and, if there are any, the masks; see `Objects.batches`.
        """
        types = [tf.uint8, tf.float32, tf.float32, tf.float32, tf.int32, tf.float32]
        read = tf.numpy_function(self._read, [sample, at, scale, places, mirrored], types)
        masks = [self._max_boxes, self._mask_size, self._mask_size]
        shapes = [None, None, 3], [None], [None], [self._max_boxes, 4], [self._max_boxes], masks
        pixels, rows, columns, *targets = (tf.ensure_shape(x, shape) for x, shape in zip(read, shapes, strict=True))
        image = pad_to(self._description.scale(jitter_colors(bilinear(pixels, rows, columns), colors)), self._size, 0.0)
        sample = {"image": image, **dict(zip(("boxes", "classes", "masks"), targets, strict=True))}
        if not self._mask_size:
            del sample["masks"]
        return sample

    def _read(self, sample: int, at: int, scale: float, places: np.ndarray, mirrored: bool) -> tuple[np.ndarray, ...]:
        """Returns the region that a crop needs, the centers of the crop's rows and columns, and the targets."""
        try:
            image = upright_image(self.images[at])
            factor = float(scale) * fit_factor(image.height, image.width, self._size)
            rows, columns = (
                crop_axis(length, factor, size, float(place))
                for length, size, place in zip((image.height, image.width), self._size, places, strict=True)
            )
            pixels = read_object_image(image, (rows.region, columns.region))
            targets = make_targets(image, rows, columns, bool(mirrored), self._max_boxes, self._mask_size)
        except MtfImagingError as error:
            # The consumer raises the error. If this function did, TensorFlow would log a traceback and replace it.
            self.errors[int(sample)] = error
            half = np.full(1, 0.5, np.float32)
            return np.zeros((1, 1, 3), np.uint8), half, half, *no_targets(self._max_boxes, self._mask_size)
        # The mirrored crop is padded on the right, like any other crop.
        across = columns.centers[::-1] if mirrored else columns.centers
        return pixels, rows.centers, np.ascontiguousarray(across), *map(np.ascontiguousarray, targets)


@dataclass(frozen=True)
class ObjectAugmentation:
    """Scales and flips images and their objects, and changes colors.

    The random numbers depend only on the run's seed and the sample number.

    Attributes:
      min_scale, max_scale: bounds of the factor that scales an image after it has been fitted to the network
        input. The reference recipes for RetinaNet and Mask R-CNN use 0.8 to 1.2; long schedules use 0.1 to 2.
      flip: whether to mirror left and right with probability 1/2.
      brightness, contrast, saturation: the largest random color changes; a factor is drawn from 1 - x to 1 + x,
        and 0 changes nothing. torchvision's `RandomPhotometricDistort`, which follows SSD, uses 0.125, 0.5 and 0.5
        in half of the samples.
      hue: the largest random hue change, as a fraction of the color circle; `RandomPhotometricDistort` uses 0.05.
    """

    min_scale: float = parameter(0.8, least=0.01)
    max_scale: float = parameter(1.2, least=0.01)
    flip: bool = True
    brightness: float = parameter(0.0, least=0, most=1)
    contrast: float = parameter(0.0, least=0, most=1)
    saturation: float = parameter(0.0, least=0, most=1)
    hue: float = parameter(0.0, least=0, most=0.5)

    def __post_init__(self):
        check_augmentation(self, self.min_scale, self.max_scale)

    def draw_scale(self, draws: Draws):
        """Returns the factor of a sample, Tensor[] float32."""
        return draws.uniform("scale", self.min_scale, self.max_scale)

    def draw_flip(self, draws: Draws):
        """Returns whether to mirror a sample, Tensor[] bool."""
        return draws.chance("flip", 0.5 if self.flip else 0.0)


@dataclass(frozen=True)
class Objects:
    """A data set of images with the boxes and masks of objects, in a folder with COCO's structure.

    The folder contains `annotations/instances_SPLIT.json` for each split, and the images in `SPLIT`, `images/SPLIT`,
    `images`, or the folder itself:

    - "images" is a list of objects with "id", "file_name", "height" and "width". The files are JPEG, PNG or TIFF
      images with 8 bits per channel.
    - "categories" is a list of objects with "id" and "name". Class i of a network is the category with the i-th lowest
      ID, so the IDs may have gaps.
    - "annotations" is a list of objects with "id", "image_id", "category_id", "bbox" (x, y, width, height) and, for
      networks that predict masks, "segmentation": polygons or a run-length encoding, compressed or not. "area" and
      "iscrowd" are optional.

    Training skips crowd regions ("iscrowd": 1), which the scores ignore. It clips boxes to the image and drops empty
    ones. Images without annotations are backgrounds. Grayscale and palette images are converted to RGB. As in
    COCO, boxes and masks refer to the stored pixels. An image and its objects are turned according to the EXIF
    orientation.

    `mtf_imaging.training.data_set` describes the interface.

    Attributes:
      split: the images to train on: the name of a split, or None for the only split.
      held_out_split: the images that are scored during training: the name of a split, or None for the only split.
      augmentation: the random scales, flips and colors; None for unchanged images.
      scaling: "unit" maps pixel values to -1..1; "mean" subtracts the ImageNet mean; "imagenet" also divides by the
        standard deviation. None for "imagenet".
      size: height and width of the network input.
      max_boxes: the number of boxes in a sample. If there are more objects, those with the largest boxes are used.
      masks: whether to yield masks.
      mask_size: height and width of the masks, each of which is cropped to its box.
    """

    split: str | None = "train"
    held_out_split: str | None = "val"
    augmentation: ObjectAugmentation | None = None
    scaling: str | None = parameter(None, choices=(None, *SCALINGS))
    size: tuple[int, int] = (640, 640)
    max_boxes: int = 100
    masks: bool = False
    mask_size: int = 112

    def __post_init__(self):
        check_parameters(self)

    def description(self, data_dir: str | Path) -> ObjectDescription:
        """Returns the categories of the training split, with the scaling of this data set."""
        description = object_description(data_dir, self.split)
        return description if self.scaling is None else dataclasses.replace(description, scaling=self.scaling)

    def images(self, data_dir: str | Path) -> list[ObjectImage]:
        """Returns the training images."""
        return find_object_images(data_dir, self.split)

    def sizes(self, data_dir: str | Path) -> tuple[int, int]:
        """Returns the height and width of the network input."""
        return self.size

    def batches(
        self, data_dir: str | Path, *, batch_size: int, sizes: tuple[int, int], seed: int, start_step: int
    ) -> Iterator[dict]:
        """Yields shuffled batches of images endlessly.

        An image is scaled to fit the size, with the same factor for height and width, and by the random factor of the
        augmentation. It is then cropped at a random position where it exceeds the size, its colors are changed, and it
        is mirrored. Padding at the bottom and on the right has the value 0 after the values are scaled. Boxes are
        clipped to the crop.

        Sample s of a run belongs to batch s // batch_size. As for records, it depends only on s and the seed, and each
        image occurs once per epoch. Only the image of the sample is read.

        Args:
          data_dir: the folder.
          batch_size: number of images in a batch.
          sizes: height and width of the network input.
          seed: seed for the order and the augmentation.
          start_step: number of the first batch.

        Yields:
          `{"image": Tensor[batch, height, width, 3] float32, "boxes": Tensor[batch, max_boxes, 4] float32 (y0, x0, y1,
          x1 in pixels of the input), "classes": Tensor[batch, max_boxes] int32 (-1 for no box), "masks": Tensor[batch,
          max_boxes, mask_size, mask_size] float32 if `masks` is set, "cases": list of keys}`.

        Raises:
          DataError: the folder is invalid. The iterator raises it if an image or a mask is invalid.
          ConfigError: `sizes` are not two positive integers, `batch_size` is below 1, or `start_step` is below 0.
        """
        description, images, size = self.description(data_dir), self.images(data_dir), check_size("Objects.size", sizes)
        reader = ObjectReader(images, description, size, self.max_boxes, self.mask_size if self.masks else 0)
        keys = [image.key for image in images]
        return crop_batches(lambda at: self._load(at, reader, seed), keys, reader.errors, size, batch_size, start_step)

    def _load(self, sample, reader: ObjectReader, seed: int) -> dict[str, Any]:
        """Returns one sample, without the dimension `batch`."""
        at, scale, mirrored, places = draw_crop(sample, len(reader.images), seed, self.augmentation)
        colors = draw_colors(sample, seed, self.augmentation)
        return {**reader.crop(sample, at, scale, places, mirrored, colors), "files": at}
