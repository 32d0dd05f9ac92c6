"""The files that evaluation and prediction of images with objects write."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.output import OVERLAYS

DETECTIONS, IMAGES, METRICS = "detections.json", "images.json", "metrics.json"
_RESULTS = (METRICS, "metrics.csv", "report.html", DETECTIONS)


class DetectionOutput(NamedTuple):
    """The files of a prediction.

    Attributes:
      detections: the COCO results of all images.
      images: the list of the images that the results refer to.
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
      DataError: the output is not of the kind of the input, or would replace an image.
    """
    is_json = output_path.suffix.lower() == ".json" and not output_path.is_dir()
    if input_path.is_dir() and is_json:
        raise DataError(
            f"{output_path}: the input {input_path} is a folder, so the output must be a folder, too. "
            "Fix: name a folder."
        )
    if input_path.is_dir() or output_path.is_dir():
        overlays = tuple(output_path / OVERLAYS / f"{image.key}.png" for image in images)
        output = DetectionOutput(output_path / DETECTIONS, output_path / IMAGES, overlays)
    elif is_json:
        beside = (output_path.with_name(f"{output_path.stem}_{name}") for name in ("images.json", "overlay.png"))
        listed, overlay = beside
        output = DetectionOutput(output_path, listed, (overlay,))
    else:
        raise DataError(
            f"{output_path}: the detections of one image need a name that ends in .json. "
            "Fix: use such a name, or name an existing folder."
        )
    written = {path.resolve() for path in output.files}
    for image in images:
        if image.image.resolve() in written:
            raise DataError(f"{image.image}: would be overwritten by its detections. Fix: name another output.")
    return output


def check_new(files: Iterable[Path]) -> None:
    """Checks that no file exists.

    Raises:
      DataError: a file exists.
    """
    existing = [path for path in files if path.exists()]
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise DataError(
            f"{existing[0]}{more}: already exists. Fix: name another output, or set overwrite.", ["overwrite"]
        )


def check_object_results(output_dir: Path, images: Sequence[ObjectImage], input_dir: str | Path) -> None:
    """Checks that an output folder does not hold results of other images.

    Raises:
      DataError: it does.
    """
    existing = [output_dir / name for name in _RESULTS if (output_dir / name).exists()]
    if existing and _scored_keys(output_dir / METRICS) != {image.key for image in images}:
        raise DataError(
            f"{existing[0]}: the file already exists and belongs to other images than those of {input_dir}. "
            "Fix: write to another folder, or delete the old results."
        )


def _scored_keys(path: Path) -> set[str]:
    """Returns the keys of the images in a `metrics.json`; none if it is missing or of another kind."""
    try:
        return {*json.loads(path.read_text())["images"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
