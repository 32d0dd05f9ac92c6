"""Evaluation and prediction of photos, each at its own size."""

import contextlib
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.photos.description import PhotoDescription, photo_description_from_fields
from mtf_imaging.data.photos.folders import CLASSES_FILE, Photo, find_photos, photo_description, splits
from mtf_imaging.data.photos.label_images import photo_size, read_labeled_photo, read_photo, write_label_image
from mtf_imaging.data.photos.native import padded_size
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.photos.infer import check_scales, most_probable, predict_photo, scaled_size
from mtf_imaging.evaluation.photos.pictures import comparison, overlay
from mtf_imaging.evaluation.photos.scores import PhotoScore, score_photo
from mtf_imaging.evaluation.photos.write import write_photo_scores
from mtf_imaging.evaluation.report.photo_layers import WorstPhotos
from mtf_imaging.evaluation.segment.flips import check_flips
from mtf_imaging.evaluation.segment.predict import check_outside
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.reading import memory_named
from mtf_imaging.files.run_folder import FACTS, check_no_run
from mtf_imaging.jobs.network import photo_network, prediction_multiple
from mtf_imaging.jobs.run import Facts
from mtf_imaging.jobs.subjects.folders import PHOTOS, check_no_volumes, check_same_classes, explained
from mtf_imaging.jobs.subjects.photo_output import (
    PICTURES,
    PREDICTIONS,
    check_results,
    output_files,
    subfolders,
    write_picture,
)
from mtf_imaging.jobs.subjects.subject import Inference
from mtf_imaging.settings.values import parse_resolution

if TYPE_CHECKING:
    from mtf_imaging.training.evaluation import Predict
    from mtf_imaging.training.task import Task

_IDLE = {
    "spacing": "photos have no voxel size",
    "window": "photos are scaled as in training",
    "cleanup": "its rules are those of livers",
    "fold": "the held-out photos are those of a list, which split names",
    "splits_file": "the held-out photos are those of a list, which split names",
    "submission": "the challenge has no photos",
    "spacing_table": "photos have no voxel size",
    "output_format": "segmentations of photos are PNG files",
}


class PhotoImages:
    """Photos that a network segments at their own sizes.

    Args:
      run: the folder of the run.
      facts: the facts of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting is invalid or has no effect on photos.
      DataError: the facts of the run are damaged.
    """

    kind = PHOTOS

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        settings.check_idle(_IDLE)
        self._flips = check_flips(settings.flips, axis_names=PHOTO_AXES)
        self._scales = check_scales(settings.scales)
        self._settings, self._held_out_split = settings, facts.held_out_split
        self._description = photo_description_from_fields(facts.photos, str(run / FACTS))
        resolution = facts.resolution if settings.resolution is None else settings.resolution
        height, width = parse_resolution(resolution, len(PHOTO_AXES), PHOTO_AXES)
        self._crop = height, width
        self._multiple = 1

    @property
    def description(self) -> PhotoDescription:
        return self._description

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[Photo]:
        check_no_volumes(input_dir, "input_dir")
        split = self._settings.split
        with explained(input_dir, PHOTOS, "input_dir", "model_dir"):
            if split is None and splits(input_dir):
                split = self._held_out_split
            photos = find_photos(input_dir, split)
            self._labels_description(input_dir)
        check_outside(Path(output_dir), Path(input_dir))
        check_no_run(output_dir)
        check_results(Path(output_dir), photos, input_dir)
        return photos

    def plan_predictions(
        self, input_path: str | Path, output_path: str | Path, overwrite: bool
    ) -> list[tuple[Photo, Path]]:
        check_no_volumes(input_path, "input")
        input_path, output_path = Path(input_path), Path(output_path)
        with explained(input_path, PHOTOS, "input", "model_dir"):
            photos = find_photos(input_path, need_labels=False)
        if input_path.is_dir():
            check_outside(output_path, input_path)
        planned = [(photo, output_files(photo, input_path, output_path).labels) for photo in photos]
        check_no_run(output_path if output_path.is_dir() or input_path.is_dir() else output_path.parent)
        existing = [path for _, path in planned if path.exists()]
        if existing and not overwrite:
            more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
            raise DataError(
                f"{existing[0]}{more}: already exists. Fix: name another output, or set overwrite.", ["overwrite"]
            )
        return planned

    def network(
        self, task: "Task", runs: Sequence[Path], checkpoint: str, images: Sequence[Photo], **options: Any
    ) -> "Predict":
        self._multiple = prediction_multiple(task)
        # The size of the first photo that is predicted, so that its program is the first one.
        height, width = scaled_size(photo_size(images[0].image), self._scales[0])
        sizes = padded_size(height, width, self._crop, self._multiple)
        return photo_network(task, sizes, runs, checkpoint, **options)

    def run_network(self, images: Sequence[Photo], network: "Predict") -> None:
        for photo in images:
            self._segment(photo, _read(photo), network)

    def evaluate(
        self,
        images: Sequence[Photo],
        network: "Predict",
        input_dir: str | Path,
        output_dir: str | Path,
        num_pictures: int,
        progress: bool,
    ) -> list[PhotoScore]:
        output_dir, description = Path(output_dir), self._labels_description(input_dir)
        scores, worst = [], WorstPhotos()
        predictions = [output_dir / PREDICTIONS / f"{photo.key}.png" for photo in images]
        pictures = [output_dir / PICTURES / f"{photo.key}.png" for photo in images[:num_pictures]]
        with writing_to(output_dir, *subfolders(output_dir, [*predictions, *pictures])):
            for number, photo in enumerate(tqdm(images, desc="evaluate", unit="photo", disable=not progress)):
                pixels, reference = read_labeled_photo(photo, description)
                labels = self._segment(photo, pixels, network)
                write_label_image(predictions[number], labels, description)
                if number < num_pictures:
                    write_picture(pictures[number], comparison(pixels, labels, reference, description))
                scores.append(score_photo(photo.key, labels, reference, description))
                worst.add(scores[-1], pixels, labels, reference, description)
            write_photo_scores(output_dir, scores, worst.layers, description, progress)
        return scores

    def predict(
        self,
        planned: list[tuple[Photo, Path]],
        network: "Predict",
        input_path: str | Path,
        output_path: str | Path,
        overwrite: bool,
        progress: bool,
    ) -> list[Path]:
        input_path, output_path = Path(input_path), Path(output_path)
        outputs = [output_files(photo, input_path, output_path) for photo, _ in planned]
        is_folder = input_path.is_dir() or output_path.is_dir()
        folders = subfolders(output_path, itertools.chain(*outputs)) if is_folder else []
        with writing_to(output_path, *folders) if is_folder else contextlib.nullcontext():
            photos = tqdm([photo for photo, _ in planned], desc="predict", unit="photo", disable=not progress)
            for photo, files in zip(photos, outputs, strict=True):
                pixels = _read(photo)
                labels = self._segment(photo, pixels, network)
                write_picture(files.overlay, overlay(pixels, labels, self._description))
                # Written last, because an existing label image marks a finished photo.
                write_label_image(files.labels, labels, self._description)
        return [path for _, path in planned]

    def _segment(self, photo: Photo, pixels: np.ndarray, network: "Predict") -> np.ndarray:
        """Returns the classes of the pixels of a photo, uint8 `[height, width]`."""
        with memory_named(photo.image):
            try:
                probabilities = predict_photo(
                    pixels, network, self._description, self._crop, self._multiple, self._scales, self._flips
                )
            except DataError as error:
                raise DataError(f"{photo.image}: {error}", error.settings) from error
            return most_probable(probabilities)

    def _labels_description(self, input_dir: str | Path) -> PhotoDescription:
        """Returns the description of the label images of a folder, which may store other values than the training's.

        Raises:
          DataError: the folder has other classes than the training.
        """
        ours = self._description
        try:
            own = photo_description(input_dir)
        except DataError:
            if (Path(input_dir) / CLASSES_FILE).exists():
                raise
            return ours  # the folder does not name its classes
        check_same_classes(input_dir, own, ours)
        return dataclasses.replace(own, scaling=ours.scaling)


def _read(photo: Photo) -> np.ndarray:
    """Returns the pixels of a photo, upright unless it has a label image, which has the orientation of the file."""
    return read_photo(photo.image, upright=photo.labels is None)
