"""The scoring of a folder of photos."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.listing.image_files import stamps
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.provenance.digests import Stamp
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.batches import in_progress
from mtf_imaging.kinds.output import write_picture
from mtf_imaging.kinds.photos.description import PhotoDescription, check_same_classes
from mtf_imaging.kinds.photos.infer import ReadPhoto
from mtf_imaging.kinds.photos.output import evaluation_files
from mtf_imaging.kinds.photos.pictures import LabeledPhoto, comparison
from mtf_imaging.kinds.photos.reading.folders import CLASSES_FILE, Photo, photo_description
from mtf_imaging.kinds.photos.reading.label_images import read_labeled_photo, write_label_image
from mtf_imaging.kinds.photos.report.layers import PhotoLayers, WorstPhotos
from mtf_imaging.kinds.photos.report.page import photo_report_html
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore, score_photo, scores_table, write_photo_metrics
from mtf_imaging.kinds.predicted import ResultFiles, Scoring
from mtf_imaging.settings.inference import EvaluateSettings


class PhotoScoring(Scoring[Photo, ReadPhoto, np.ndarray]):
    """The scoring of a folder of photos, whose pictures of the worst photos are kept for the report.

    Args:
      own: the settings of the job.
      description: the classes of the training.
      provenance: the provenance of the scores, without files.

    Raises:
      DataError: the folder does not have the classes of the training.
    """

    def __init__(self, own: EvaluateSettings, description: PhotoDescription, provenance: Provenance) -> None:
        self._own, self._provenance, self._output_dir = own, provenance, Path(own.output_dir)
        self._description = labels_description(own.input_dir, description)
        self._worst = WorstPhotos()
        self._files: dict[str, dict[str, Stamp]] = {}

    def files(self, image: Photo) -> ResultFiles:
        return evaluation_files(image, self._output_dir)

    def read(self, image: Photo) -> ReadPhoto:
        return ReadPhoto(*read_labeled_photo(image, self._description))

    def score(self, image: Photo, read: ReadPhoto, result: np.ndarray, files: ResultFiles) -> PhotoScore:
        assert read.reference is not None
        own, labeled = self._description, LabeledPhoto(read.pixels, result, read.reference)
        write_label_image(files.prediction, result, own)
        if files.picture is not None:
            write_picture(files.picture, comparison(labeled, own))
        score = score_photo(image.key, result, read.reference, own)
        self._worst.add(score, labeled, own)
        self._files[image.key] = stamps(prediction=files.prediction, reference=image.labels, image=image.image)
        return score

    def gather(self, made: Iterator[PhotoScore | None], total: int, faults: CaseFaults) -> list[PhotoScore]:
        scores = in_progress(made, total, "evaluate", "photo", self._own.progress)
        return [score for score in scores if score is not None]

    def report(self, images: Sequence[Photo], scored: list[PhotoScore]) -> list[PhotoScore]:
        origin = self._provenance.with_files(self._files)
        write_photo_scores(self._output_dir, scored, self._worst.layers, self._description, self._own.progress, origin)
        return scored


def write_photo_scores(
    output_dir: Path,
    scores: Sequence[PhotoScore],
    layers: Mapping[str, PhotoLayers],
    description: PhotoDescription,
    progress: bool,
    provenance: Provenance,
) -> None:
    """Writes `metrics.json`, `metrics.csv` and `report.html`, and prints the table of classes.

    Args:
      output_dir: the folder, created if missing.
      scores: the scores of one or more photos.
      layers: the pictures of some of these photos by key; see `WorstPhotos`.
      description: the classes and their colors.
      progress: whether to print the table.
      provenance: the provenance of the scores.
    """
    fields = provenance.as_json()
    write_photo_metrics(output_dir, scores, description, fields)
    write_bytes(output_dir / "report.html", photo_report_html(scores, layers, description, fields).encode())
    if progress:
        print(scores_table(scores, description))


def labels_description(input_dir: str | Path, ours: PhotoDescription) -> PhotoDescription:
    """Returns the description of a folder's label images, which may store other values than in training.

    Args:
      input_dir: the folder.
      ours: the description of the training.

    Raises:
      DataError: the folder does not have the classes of the training.
    """
    try:
        own = photo_description(input_dir)
    except DataError:
        if (Path(input_dir) / CLASSES_FILE).exists():
            raise
        return ours  # the folder does not name its classes
    check_same_classes(input_dir, own, ours)
    return dataclasses.replace(own, scaling=ours.scaling)
