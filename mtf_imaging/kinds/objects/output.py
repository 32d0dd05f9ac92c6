"""The files of predictions and scores of images with objects."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.volume_scores.files import RESULTS
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.contained import contained
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.report.layers import ObjectLayers
from mtf_imaging.kinds.objects.report.page import object_report_html
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.scoring.scores import ObjectScores, scores_table, write_object_metrics
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


def write_object_scores(
    output_dir: Path,
    scores: ObjectScores,
    layers: Mapping[str, ObjectLayers],
    description: ObjectDescription,
    progress: bool,
    provenance: Provenance,
) -> None:
    """Writes `metrics.json`, `metrics.csv` and `report.html`, and prints the table of categories.

    Args:
      output_dir: the folder, created if missing.
      scores: the scores of one or more images.
      layers: the pictures of some of these images by key.
      description: the categories.
      progress: whether to print the table.
      provenance: the provenance of the scores.
    """
    fields = provenance.as_json()
    write_object_metrics(output_dir, scores, fields)
    write_bytes(output_dir / "report.html", object_report_html(scores, layers, description, fields).encode())
    if progress:
        print(scores_table(scores))


def detections_json(
    images: Sequence[ObjectImage], detections: Sequence[Detections], description: ObjectDescription
) -> bytes:
    """Returns the detections of images as COCO results, with file names: the contents of a JSON file.

    Args:
      images: the images.
      detections: the detections of each image.
      description: the categories.
    """
    rows = [
        row for image, own in zip(images, detections, strict=True) for row in detection_rows(image, own, description)
    ]
    return rows_json(rows)


def detection_rows(image: ObjectImage, detections: Detections, description: ObjectDescription) -> list[dict[str, Any]]:
    """Returns the detections in an image as COCO results, with the name of its file."""
    return [
        {**result, "file_name": image.image.name} for result in detections.coco_results(image.image_id, description)
    ]


def of_image(image: ObjectImage, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns COCO results with the current ID of their image, which depends on the other files in its folder."""
    return [{**row, "image_id": image.image_id} for row in rows]


def write_image_list(path: Path, images: Sequence[ObjectImage], description: ObjectDescription) -> None:
    """Writes the images and categories to which COCO results refer; replaces the file atomically.

    The file is a COCO annotation file without annotations, which pycocotools needs to read results.

    Args:
      path: the JSON file.
      images: the images.
      description: the categories.
    """
    fields = {
        "images": [
            {"id": image.image_id, "file_name": image.image.name, "height": image.height, "width": image.width}
            for image in images
        ],
        "categories": [{"id": coco_id, "name": name} for coco_id, name in description.categories],
        "annotations": [],
    }
    write_bytes(path, (json.dumps(fields, indent=1) + "\n").encode())


def rows_json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Returns a list as JSON, with one row per line."""
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    return (f"[\n{lines}\n]\n" if rows else "[]\n").encode()
