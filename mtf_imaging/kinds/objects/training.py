"""Images with objects in training: the images to train on, and the scores of held-out images."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.data.class_frequencies import evenly_spread
from mtf_imaging.data.description.differences import Difference
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.pixels.batches import cyclic_batches
from mtf_imaging.data.pixels.crop_axis import crop_axis
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.inference.network import Prediction
from mtf_imaging.kinds.batches import score_held_out
from mtf_imaging.kinds.file_images import FileTraining
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.description import (
    ObjectDescription,
    category_differences,
    object_description_from_fields,
)
from mtf_imaging.kinds.objects.infer import ObjectInference
from mtf_imaging.kinds.objects.pictures import category_color, comparison, draw, drawn_objects
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage, find_object_images
from mtf_imaging.kinds.objects.reading.images import (
    ReadImage,
    read_object_image,
    seen,
    upright_image,
)
from mtf_imaging.kinds.objects.reading.native import fit, fit_factor
from mtf_imaging.kinds.objects.reading.targets import make_targets
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.scoring.scores import score_images

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task

MAX_SIDE = 480  # pixels of the pictures of a data set


def survey_objects(images: Sequence[ObjectImage], description: ObjectDescription) -> LabelSurvey:
    """Returns the number of objects of each category, without crowd regions, in all images.

    Args:
      images: the annotated images.
      description: the categories.
    """
    counts = np.zeros(len(description.names), np.int64)
    for image in images:
        for one in image.objects or ():
            counts[one.category] += not one.is_crowd
    return LabelSurvey(
        names={name: number for number, name in enumerate(description.names)},
        counts=counts,
        ignored=(),
        num_counted=len(images),
        num_images=len(images),
        unit="object",
        images="images",
        source="the categories",
        cause="" if counts.any() else "no image has an annotated object to detect. Fix: add annotations",
    )


BOX_MEASURES = ("box_ap", "box_ap50")
MASK_MEASURES = ("mask_ap", "mask_ap50")


@dataclass(frozen=True)
class HeldOutObjects:
    """Average precision over the images of a split, for `mtf_imaging.training.evaluation`.

    Each image is predicted as a whole, and scored at its own size, as in `evaluate`.

    Attributes:
      data_set: the training data set, whose split `held_out_split` is scored.
      description: the training categories, with the scaling of pixel values.
      split: the split to score; None for the only split.
      num_pictures: the number of images with a picture.
      progress: whether to show a progress bar.
    """

    data_set: Objects
    description: ObjectDescription
    split: str | None = "val"
    num_pictures: int = 4
    progress: bool = True

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures; mask measures only if the data set has masks."""
        return BOX_MEASURES + (MASK_MEASURES if self.data_set.masks else ())

    def open(self, eval_dir: str | Path, sizes: tuple[int, int]) -> Callable:
        """Finds the images and returns a function that scores a network on them.

        Args:
          eval_dir: folder of the images.
          sizes: height and width of the network's input.

        Returns:
          A function of the network, which takes images of these sizes. It returns the measures by name and pictures of
          the first images.

        Raises:
          DataError: the folder has no annotated images in this split, or they have no objects.
        """
        images = self._images(eval_dir)
        if not any(not one.is_crowd for image in images for one in image.objects or ()):
            raise DataError(
                f"{eval_dir}: the {len(images)} held-out images have no objects, so they have no average precision. "
                "Fix: add images with objects to the split."
            )

        def check(number: int, read: ReadImage, result: Detections) -> Detections:
            if self.data_set.masks and result.masks is None:
                raise ConfigError(
                    "the network predicts no masks, but the data set has masks (Objects.masks). Fix: set Objects.masks "
                    "to False, or train a task that predicts masks, such as InstanceSegmentation.",
                    ["data", "task"],
                )
            return result

        def score(network: Callable[[np.ndarray], Prediction]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            steps = ObjectInference(self.description, sizes).steps(network)
            detections = score_held_out(steps, images, check, "image", self.progress)
            scores = score_images(images, detections, self.description)
            pictures = {}
            for image, own in zip(images[: self.num_pictures], detections, strict=False):
                pictures[f"image {image.key}"] = comparison(seen(image, own), self.description, scores.counted_from)
            values = {}
            for prefix, part in (("box", scores.boxes), ("mask", scores.masks)):
                for name in ("ap", "ap50"):
                    if part is not None and f"{prefix}_{name}" in self.measures:
                        value = part.measures[name]
                        assert value is not None, "there are objects"
                        values[f"{prefix}_{name}"] = value
            return values, pictures

        return score

    def loss_batches(self, eval_dir: str | Path, *, batch_size: int, sizes: tuple[int, int]) -> Iterator[dict]:
        """Returns an iterator over all images in batches, in order; the first images fill up the last batch.

        Args:
          eval_dir: folder of the images.
          batch_size: images in a batch.
          sizes: height and width of the network's input.

        Yields:
          Batches as in training, without random changes.
        """
        images = self._images(eval_dir)
        for batch in cyclic_batches(images, batch_size):
            samples = [self._sample(image, sizes) for image in batch]
            stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
            yield {**stacked, "cases": [image.key for image in batch]}

    def _sample(self, image: ObjectImage, size: tuple[int, int]) -> dict[str, np.ndarray]:
        """Returns an image that fits the size with its targets, without the dimension `batch`."""
        data_set, image = self.data_set, upright_image(image)
        factor = fit_factor(image.height, image.width, size)
        rows, columns = (
            crop_axis(length, factor, count, 0.0)
            for length, count in zip((image.height, image.width), size, strict=True)
        )
        mask_size = data_set.mask_size if data_set.masks else 0
        targets = make_targets(image, rows, columns, False, data_set.max_boxes, mask_size)
        pixels = read_object_image(image)
        sample = {"image": fit(pixels, size, self.description)[0], "boxes": targets.boxes, "classes": targets.classes}
        return sample | ({"masks": targets.masks} if data_set.masks else {})

    def _images(self, eval_dir: str | Path) -> list[ObjectImage]:
        return find_object_images(eval_dir, self.split, self.description)


class Training(FileTraining[ObjectDescription]):
    """The images of a data set with objects, which are scaled to one size."""

    data_sets = Objects
    kind = "objects"

    def measure(self, description: ObjectDescription) -> str:
        return (MASK_MEASURES if self._data_set.masks else BOX_MEASURES)[0]

    def differences(self, description: ObjectDescription, fields: dict | None, where: str) -> list[Difference]:
        return category_differences(description, object_description_from_fields(fields, where))

    def label_survey(self, folder: str | Path, description: ObjectDescription, is_held_out: bool) -> LabelSurvey:
        split = self.held_out if is_held_out else self.split
        return survey_objects(find_object_images(folder, split, description), description)

    def pictures(
        self, folder: str | Path, description: ObjectDescription, most: int
    ) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        pictures = {}
        for image in map(upright_image, evenly_spread(find_object_images(folder, self.split, description), most)):
            pictures[image.key] = draw(read_object_image(image), drawn_objects(image, description, True), MAX_SIDE)
        return pictures, {name: category_color(number) for number, name in enumerate(description.names)}

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        return self.held_out

    def agreed(self, data_dir: str | Path, eval_dir: str | Path | None) -> list[str]:
        return [repr([image.key for image in find_object_images(eval_dir, self.held_out)])] if eval_dir else []

    def cases(self, data_dir: str | Path) -> dict[str, str | None]:
        return {image.key: None for image in self._data_set.images(data_dir)}

    def evaluation(
        self, data_dir: str | Path, eval_dir: str | Path, description: ObjectDescription, task: "Task", progress: bool
    ) -> HeldOutObjects:
        find_object_images(eval_dir, self.held_out, description)  # checks the categories
        return HeldOutObjects(self._data_set, description, self.held_out, progress=progress)
