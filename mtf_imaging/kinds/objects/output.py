"""The output files for evaluating and predicting images with objects."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.scoring.files import RESULTS
from mtf_imaging.files.contained import contained
from mtf_imaging.files.json_file import read_object
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.output import OVERLAYS, PICTURES, check_kept, goes_to_folder

DETECTIONS, IMAGES, METRICS = "detections.json", "images.json", "metrics.json"


class DetectionOutput(NamedTuple):
    """The files of a prediction.

    Attributes:
      detections: the COCO results of all images.
      images: the list of images to which the results refer.
      overlays: the picture of each image.
    """

    detections: Path
    images: Path
    overlays: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All files."""
        return (self.detections, self.images, *self.overlays)


def detection_output(images: Sequence[ObjectImage], input_path: Path, output_path: Path) -> DetectionOutput:
    """Returns the files that prediction writes.

    Args:
      images: the images.
      input_path: the image, or the folder of images.
      output_path: a JSON file for an image, or a folder.

    Raises:
      DataError: the output is not of the same kind as the input, or would replace an image.
    """
    if goes_to_folder(input_path, output_path, (".json",), "the detections of one image need"):
        overlays = tuple(contained(output_path, OVERLAYS, f"{image.key}.png") for image in images)
        output = DetectionOutput(output_path / DETECTIONS, output_path / IMAGES, overlays)
    else:
        beside = (output_path.with_name(f"{output_path.stem}_{name}") for name in ("images.json", "overlay.png"))
        listed, overlay = beside
        output = DetectionOutput(output_path, listed, (overlay,))
    check_kept((image.image for image in images), output.files, "detections")
    return output


def picture_file(output_dir: Path, image: ObjectImage) -> Path:
    """Returns the picture that evaluation can write for an image.

    Raises:
      DataError: the name of the image leads out of the folder.
    """
    return contained(output_dir, PICTURES, f"{image.key}.png")


def check_object_results(output_dir: Path, images: Sequence[ObjectImage], input_dir: str | Path) -> None:
    """Checks that an output folder does not contain results of other images, and that no image is replaced.

    Raises:
      DataError: the folder contains other results, or a picture would replace an image or lie outside of the folder.
    """
    pictures = [picture_file(output_dir, image) for image in images]
    check_kept((image.image for image in images), pictures, "picture")
    written = (*(output_dir / name for name in (*RESULTS, DETECTIONS)), *pictures)
    existing = [path for path in written if path.exists()]
    if existing and _scored_keys(output_dir / METRICS) != {image.key for image in images}:
        raise DataError(
            f"{existing[0]}: the file already exists and belongs to other images than those of {input_dir}. "
            "Fix: write to another folder, or delete the old results."
        )


def _scored_keys(path: Path) -> set[str]:
    """Returns the keys of the images in a `metrics.json`; an empty set if the file is missing or of another kind."""
    try:
        return {*read_object(path)["images"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
