"""Writes the files with photo scores, and prints the table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.report.layers import PhotoLayers
from mtf_imaging.kinds.photos.report.page import photo_report_html
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore, scores_table, write_photo_metrics


def write_photo_scores(
    output_dir: str | Path,
    scores: Sequence[PhotoScore],
    layers: Mapping[str, PhotoLayers],
    description: PhotoDescription,
    progress: bool = True,
    provenance: Provenance | None = None,
) -> None:
    """Writes `metrics.json`, `metrics.csv` and `report.html`, and prints the table of classes.

    Args:
      output_dir: the folder, created if missing.
      scores: the scores of one or more photos.
      layers: the pictures of some of these photos by key; see `WorstPhotos`.
      description: the classes and their colors.
      progress: whether to print the table.
      provenance: the provenance of the scores; None if it is not known.
    """
    fields = (provenance or Provenance()).as_json()
    write_photo_metrics(output_dir, scores, description, fields)
    write_bytes(Path(output_dir) / "report.html", photo_report_html(scores, layers, description, fields).encode())
    if progress:
        print(scores_table(scores, description))
