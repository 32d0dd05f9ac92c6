"""A training data set of images with objects."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtf_imaging.data.pixels.batches import check_data_set, crop_batches, draw_crop
from mtf_imaging.data.pixels.color_jitter import draw_colors
from mtf_imaging.data.pixels.crop_axis import check_size
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.objects.augmentation import ObjectAugmentation
from mtf_imaging.kinds.objects.description import ObjectDescription, is_integer
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage, find_object_images, object_description
from mtf_imaging.kinds.objects.reading.reader import ObjectReader


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
    scaling: str | None = None
    size: tuple[int, int] = (640, 640)
    max_boxes: int = 100
    masks: bool = False
    mask_size: int = 112

    def __post_init__(self):
        check_data_set(self, "Objects", "objects", ObjectAugmentation)
        for name in ("max_boxes", "mask_size"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise ConfigError(f"Objects.{name} {value!r}: must be a positive integer. Fix: choose one.")
        if not isinstance(self.masks, bool):
            raise ConfigError(f"Objects.masks {self.masks!r}: must be True or False. Fix: choose one.")

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
          DataError: the folder is invalid, `batch_size` is below 1, or `start_step` is below 0. The iterator raises it
            if an image or a mask is invalid.
          ConfigError: `sizes` are not two positive integers.
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
