"""Evaluates and predicts images with objects, each at its own size."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.listing.image_files import stamps
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.provenance.digests import Stamp
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.batches import batches
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.file_images import FileImages
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.kind import Planned
from mtf_imaging.kinds.networks import is_alone, trained_network
from mtf_imaging.kinds.objects.description import ObjectDescription, object_description_from_fields
from mtf_imaging.kinds.objects.infer import NMS_THRESHOLD, input_size, predict_batch
from mtf_imaging.kinds.objects.output import DETECTIONS, check_object_results, detection_output, picture_files
from mtf_imaging.kinds.objects.pictures import SHOWN_SCORE, comparison, draw, drawn_detections
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage, annotation_file, find_object_images, splits
from mtf_imaging.kinds.objects.reading.images import (
    read_object_image,
    stored_detections,
    upright_detections,
    upright_image,
)
from mtf_imaging.kinds.objects.report.layers import ObjectLayers, make_object_layers
from mtf_imaging.kinds.objects.report.page import pictured
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.scoring.scores import ObjectScore, ObjectScores, score_images
from mtf_imaging.kinds.objects.write import (
    detection_rows,
    detections_json,
    of_image,
    rows_json,
    write_image_list,
    write_object_scores,
)
from mtf_imaging.kinds.output import is_folder, plan_outputs, subfolders, write_picture, writing_results
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles, PredictionRecord
from mtf_imaging.network.network import Network
from mtf_imaging.settings.values import check_flips, check_scales

if TYPE_CHECKING:
    from mtf_imaging.settings.inference import EvaluateSettings, PredictSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

_SPLIT = "the held-out images are those of a split, which split names"
_IDLE = {
    "spacing": "images have no voxel size",
    "window": "images are scaled as in training",
    "sliding_window": "images are computed as a whole",
    "window_step": "images are computed as a whole",
    "cleanup": "its rules are for the labels of volumes",
    "choose_cleanup": "its rules are for the labels of volumes",
    "fold": _SPLIT,
    "splits_file": _SPLIT,
    "submission": "the challenge has no images with objects",
    "spacing_table": "images have no voxel size",
    **dict.fromkeys(("label_codes", "probabilities", "uncertainty"), "it concerns segmentations of volumes"),
    "output_format": "detections are JSON files",
}


class Prediction(FileImages):
    """Images in which a network detects objects.

    Args:
      run: the run folder.
      facts: the run's facts.
      settings: the job settings.

    Raises:
      ConfigError: a setting is invalid or has no effect on images with objects.
      DataError: the run's facts are damaged.
    """

    kind = "objects"

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        super().__init__(facts, settings, _IDLE)
        check_no_ensemble(settings.ensemble)
        self._flips = check_flips(settings.flips, axis_names=PHOTO_AXES)
        self._scales = check_scales(settings.scales)
        self._threshold = NMS_THRESHOLD
        self.description: ObjectDescription = object_description_from_fields(facts.description, str(run / FACTS))

    def find(self, path: Path) -> list[ObjectImage]:
        return _images_of_all_splits(path)

    def labeled(self, folder: Path) -> list[ObjectImage]:
        return find_object_images(folder, self._split(folder), self.description)

    def _split(self, folder: Path) -> str | None:
        """Returns the split to evaluate; None for the only one."""
        split = self._settings.split
        return self._held_out_split if split is None and self._held_out_split in splits(folder) else split

    def check_results(self, output_dir: Path, images: Sequence[ObjectImage], input_dir: Path) -> None:
        check_object_results(output_dir, images, input_dir)

    def plan_files(self, images: Sequence[ObjectImage], input_path: Path, output_path: Path) -> Planned:
        shown, outputs, faults = plan_outputs(images, lambda image: detection_output([image], input_path, output_path))
        return Planned([(image, output.detections) for image, output in zip(shown, outputs, strict=True)], faults)

    def prediction_files(
        self, pairs: list[tuple[ObjectImage, Path]], input_path: Path, output_path: Path
    ) -> PredictionFiles:
        output = detection_output([image for image, _ in pairs], input_path, output_path)
        images = (ImageFiles((image.image,), (path,)) for (image, _), path in zip(pairs, output.overlays, strict=True))
        shared = output.detections, output.images
        return PredictionFiles((*images,), shared, output_path if is_folder(input_path, output_path) else None)

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[ObjectImage]) -> Network:
        self._threshold = getattr(settings.task, "nms_threshold", NMS_THRESHOLD)
        first, *others = dict.fromkeys(input_size(self._size, scale) for scale in self._scales)
        settings = dataclasses.replace(settings, batch_size=self._settings.eval_batch_size)
        return trained_network(settings, runs, [*others, first])

    def run_network(self, images: Sequence[ObjectImage], network: Network) -> None:
        for batch in batches(images, self._settings.eval_batch_size):
            self._detect([_read(image) for image in batch], network)

    def evaluate(
        self,
        images: Sequence[ObjectImage],
        network: Network,
        own: "EvaluateSettings",
        provenance: Provenance | None = None,
    ) -> list[ObjectScore]:
        output_dir, description = Path(own.output_dir), self.description
        pictures = picture_files(output_dir, images[: own.num_pictures])
        with writing_to(output_dir, *subfolders(output_dir, pictures)):
            shown = tqdm(total=len(images), desc="evaluate", unit="image", disable=not own.progress)
            detections, faults = [], CaseFaults(at_once=not is_alone())
            for batch in batches(images, self._settings.eval_batch_size):
                read: list[ReadImage] = []
                for image in batch:
                    with faults.collect(image.key, image.image):
                        read.append(_read(image))
                if read:
                    with faults.collect(read[0].stored.key, read[0].stored.image):
                        detections += self._detect(read, network)
                shown.update(len(batch))
            shown.close()
            faults.check((image.key for image in images), "images")
            scores = score_images(images, detections, description)
            layers = self._layers(images, detections, scores)
            # Written first, because metrics.json shows whether the other results in a folder belong to the same images.
            files = {image.key: stamps(image=image.image) for image in images}
            annotations = annotation_file(own.input_dir, self._split(Path(own.input_dir)))
            files[annotations.name] = stamps(reference=annotations)
            written = detections_json(images, detections, description)
            files[DETECTIONS] = {"prediction": Stamp(DETECTIONS, hashlib.sha256(written).hexdigest())}
            write_object_scores(
                output_dir, scores, layers, description, own.progress, (provenance or Provenance()).with_files(files)
            )
            write_bytes(output_dir / DETECTIONS, written)
            for path, image, detected in zip(pictures, images, detections, strict=False):
                seen = upright_image(image)
                shown = read_object_image(seen), seen, upright_detections(detected, seen)
                write_picture(path, comparison(*shown, description, scores.counted_from))
        return [*scores.images]

    def predict(
        self,
        pairs: list[tuple[ObjectImage, Path]],
        network: Network | None,
        own: "PredictSettings",
        record: PredictionRecord,
        faults: CaseFaults,
    ) -> list[Path]:
        input_path, output_path = Path(own.input), Path(own.output)
        images = [image for image, _ in pairs]
        output = detection_output(images, input_path, output_path)
        rows = {number: record.result(number) for number in {*range(len(images))} - {*record.unfinished}}
        with writing_results(input_path, output_path, output.overlays), record.open():
            for number in tqdm(record.unfinished, desc="predict", unit="image", disable=not own.progress):
                image = images[number]
                assert network is not None, "an image is unfinished"
                with faults.collect(image.key, image.image):
                    read = _read(image)
                    (detections,) = self._detect([read], network)
                    own_rows: list[dict[str, Any]] = []
                    with record.writing(number, own_rows):
                        shown = drawn_detections(
                            upright_detections(detections, read.upright), self.description, SHOWN_SCORE
                        )
                        write_picture(output.overlays[number], draw(read.pixels, shown))
                        own_rows += detection_rows(image, detections, self.description)
                    rows[number] = own_rows
            done = [number for number in range(len(images)) if number in rows]
            with record.writing_shared():
                write_image_list(output.images, [images[number] for number in done], self.description)
                every = [row for number in done for row in of_image(images[number], rows[number])]
                write_bytes(output.detections, rows_json(every))
        return [output.detections]

    def _detect(self, images: Sequence["ReadImage"], network: Network) -> list[Detections]:
        """Returns the detections of each image in stored pixel coordinates; errors about a result name the image."""
        options: dict[str, Any] = {"scales": self._scales, "flips": self._flips, "threshold": self._threshold}
        options["files"] = [image.stored.image for image in images]
        pixels = [image.pixels for image in images]
        found = predict_batch(pixels, network.predict_batch, self.description, self._size, **options)
        return [stored_detections(own, image.upright) for own, image in zip(found, images, strict=True)]

    def _layers(
        self, images: Sequence[ObjectImage], detections: Sequence[Detections], scores: ObjectScores
    ) -> dict[str, ObjectLayers]:
        """Returns the pictures of the best and worst images, by key."""
        layers = {}
        for number in pictured(scores):
            image = upright_image(images[number])
            layers[image.key] = make_object_layers(
                read_object_image(image),
                image,
                upright_detections(detections[number], image),
                scores.matches[number],
                scores.counted_from,
                self.description,
            )
        return layers


class ReadImage(NamedTuple):
    """An image whose pixels are in memory.

    Attributes:
      stored: the image as stored in its file and annotations.
      upright: the image after turning it according to its EXIF orientation.
      pixels: the pixels of the upright image, uint8 `[height, width, 3]`.
    """

    stored: ObjectImage
    upright: ObjectImage
    pixels: np.ndarray


def _read(image: ObjectImage) -> ReadImage:
    """Reads an image."""
    upright = upright_image(image)
    return ReadImage(image, upright, read_object_image(upright))


def check_no_ensemble(ensemble: bool) -> None:
    """Raises ConfigError if the job would average the detections of several networks."""
    if ensemble:
        raise ConfigError(
            "ensemble: detections of several networks cannot be averaged, because their boxes differ. Fix: give "
            "the folder of one run as model_dir, without ensemble.",
            ["ensemble", "model_dir"],
        )


def _images_of_all_splits(path: Path) -> list[ObjectImage]:
    """Returns the images in a folder, or one image; annotations are optional.

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
