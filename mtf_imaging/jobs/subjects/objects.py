"""Evaluation and prediction of images with objects, each at its own size."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.objects.annotations import ObjectImage, find_object_images, splits
from mtf_imaging.data.objects.description import ObjectDescription, object_description_from_fields
from mtf_imaging.data.objects.images import read_object_image
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.objects.detections import Detections
from mtf_imaging.evaluation.objects.infer import predict_objects
from mtf_imaging.evaluation.objects.pictures import SHOWN_SCORE, comparison, draw, drawn_detections
from mtf_imaging.evaluation.objects.scores import ObjectScore, ObjectScores, score_images
from mtf_imaging.evaluation.objects.write import write_detections, write_image_list, write_object_scores
from mtf_imaging.evaluation.report.object_layers import ObjectLayers, make_object_layers
from mtf_imaging.evaluation.report.object_page import pictured
from mtf_imaging.evaluation.segment.predict import check_outside
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.reading import memory_named
from mtf_imaging.files.run_folder import FACTS, check_no_run
from mtf_imaging.jobs.network import object_network
from mtf_imaging.jobs.run import Facts
from mtf_imaging.jobs.subjects.folders import OBJECTS, check_no_volumes, explained
from mtf_imaging.jobs.subjects.object_output import (
    DETECTIONS,
    check_new,
    check_object_results,
    detection_output,
)
from mtf_imaging.jobs.subjects.photo_output import PICTURES, subfolders, write_picture
from mtf_imaging.jobs.subjects.subject import Inference
from mtf_imaging.settings.values import parse_resolution

if TYPE_CHECKING:
    from mtf_imaging.training.evaluation import Predict
    from mtf_imaging.training.task import Task

_SPLIT = "the held-out images are those of a split, which split names"
_IDLE = {
    "spacing": "images have no voxel size",
    "window": "images are scaled as in training",
    "cleanup": "its rules are those of livers",
    "flips": "the detections of several networks or images cannot be averaged",
    "scales": "images are scaled to the size of the network's input",
    "fold": _SPLIT,
    "splits_file": _SPLIT,
    "submission": "the challenge has no images with objects",
    "spacing_table": "images have no voxel size",
    "output_format": "detections are JSON files",
}


class ObjectImages:
    """Images in which a network detects objects.

    Args:
      run: the folder of the run.
      facts: the facts of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting is invalid or has no effect on images with objects.
      DataError: the facts of the run are damaged.
    """

    kind = OBJECTS

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        settings.check_idle(_IDLE)
        if settings.ensemble:
            raise ConfigError(
                "ensemble: detections of several networks cannot be averaged, because their boxes differ. Fix: give "
                "the folder of one run as model_dir, without ensemble.",
                ["ensemble", "model_dir"],
            )
        self._settings, self._held_out_split = settings, facts.held_out_split
        self._description = object_description_from_fields(facts.objects, str(run / FACTS))
        resolution = facts.resolution if settings.resolution is None else settings.resolution
        height, width = parse_resolution(resolution, len(PHOTO_AXES), PHOTO_AXES)
        self._size = height, width

    @property
    def description(self) -> ObjectDescription:
        return self._description

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[ObjectImage]:
        check_no_volumes(input_dir, "input_dir", OBJECTS)
        split = self._settings.split
        with explained(input_dir, OBJECTS, "input_dir", "model_dir"):
            if split is None and self._held_out_split in splits(input_dir):
                split = self._held_out_split
            images = find_object_images(input_dir, split, self._description)
        check_outside(Path(output_dir), Path(input_dir))
        check_no_run(output_dir)
        check_object_results(Path(output_dir), images, input_dir)
        return images

    def plan_predictions(
        self, input_path: str | Path, output_path: str | Path, overwrite: bool
    ) -> list[tuple[ObjectImage, Path]]:
        check_no_volumes(input_path, "input", OBJECTS)
        input_path, output_path = Path(input_path), Path(output_path)
        with explained(input_path, OBJECTS, "input", "model_dir"):
            images = _images_of_all_splits(input_path)
        if input_path.is_dir():
            check_outside(output_path, input_path)
        output = detection_output(images, input_path, output_path)
        check_no_run(output_path if output_path.is_dir() or input_path.is_dir() else output_path.parent)
        if not overwrite:
            check_new(output.files)
        return [(image, output.detections) for image in images]

    def network(
        self, task: "Task", runs: Sequence[Path], checkpoint: str, images: Sequence[ObjectImage], **options: Any
    ) -> "Predict":
        (run,) = runs
        return object_network(task, self._size, run, checkpoint, **options)

    def run_network(self, images: Sequence[ObjectImage], network: "Predict") -> None:
        for image in images:
            self._detect(image, read_object_image(image), network)

    def evaluate(
        self,
        images: Sequence[ObjectImage],
        network: "Predict",
        input_dir: str | Path,
        output_dir: str | Path,
        num_pictures: int,
        progress: bool,
    ) -> list[ObjectScore]:
        output_dir, description = Path(output_dir), self._description
        pictures = [output_dir / PICTURES / f"{image.key}.png" for image in images[:num_pictures]]
        with writing_to(output_dir, *subfolders(output_dir, pictures)):
            shown = tqdm(images, desc="evaluate", unit="image", disable=not progress)
            detections = [self._detect(image, read_object_image(image), network) for image in shown]
            scores = score_images(images, detections, description)
            for path, image, own in zip(pictures, images, detections, strict=False):
                pixels = read_object_image(image)
                write_picture(path, comparison(pixels, image, own, description, scores.threshold))
            write_detections(output_dir / DETECTIONS, images, detections, description)
            layers = self._layers(images, detections, scores)
            write_object_scores(output_dir, scores, layers, description, progress)
        return [*scores.images]

    def predict(
        self,
        planned: list[tuple[ObjectImage, Path]],
        network: "Predict",
        input_path: str | Path,
        output_path: str | Path,
        overwrite: bool,
        progress: bool,
    ) -> list[Path]:
        input_path, output_path = Path(input_path), Path(output_path)
        images = [image for image, _ in planned]
        output = detection_output(images, input_path, output_path)
        is_folder = input_path.is_dir() or output_path.is_dir()
        folders = subfolders(output_path, output.overlays) if is_folder else []
        detections = []
        with writing_to(output_path, *folders) if is_folder else contextlib.nullcontext():
            shown = tqdm(images, desc="predict", unit="image", disable=not progress)
            for image, path in zip(shown, output.overlays, strict=True):
                pixels = read_object_image(image)
                detections.append(self._detect(image, pixels, network))
                write_picture(path, draw(pixels, drawn_detections(detections[-1], self._description, SHOWN_SCORE)))
            write_image_list(output.images, images, self._description)
            # Written last, because existing detections mark a finished prediction.
            write_detections(output.detections, images, detections, self._description)
        return [output.detections]

    def _detect(self, image: ObjectImage, pixels: np.ndarray, network: "Predict") -> Detections:
        """Returns the detections in an image; an error of the network names the image."""
        with memory_named(image.image):
            try:
                return predict_objects(pixels, network, self._description, self._size)
            except DataError as error:
                raise DataError(f"{image.image}: {error}", error.settings) from error

    def _layers(
        self, images: Sequence[ObjectImage], detections: Sequence[Detections], scores: ObjectScores
    ) -> dict[str, ObjectLayers]:
        """Returns the pictures of the best and worst images by their keys."""
        layers = {}
        for number in pictured(scores):
            image = images[number]
            layers[image.key] = make_object_layers(
                read_object_image(image),
                image,
                detections[number],
                scores.matches[number],
                scores.threshold,
                self._description,
            )
        return layers


def _images_of_all_splits(path: Path) -> list[ObjectImage]:
    """Returns the images of a folder, or one image; annotations are optional.

    Raises:
      DataError: two splits have the same image.
    """
    names = splits(path) if path.is_dir() else ()
    images = [image for split in names or (None,) for image in find_object_images(path, split, need_annotations=False)]
    for values in ([image.key for image in images], [image.image_id for image in images]):
        if len({*values}) < len(images):
            twice = next(value for at, value in enumerate(values) if value in values[:at])
            raise DataError(
                f"{path}: several images of its splits {', '.join(names)} have the name or the id {twice!r}. "
                "Fix: give the folder of the images of one split."
            )
    return images
