"""Writes the scores and detections of images to files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.report.layers import ObjectLayers
from mtf_imaging.kinds.objects.report.page import object_report_html
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.scoring.scores import ObjectScores, scores_table, write_object_metrics


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
