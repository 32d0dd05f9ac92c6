"""Evaluates and predicts photos, each at its own size."""

import dataclasses
import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.listing.image_files import stamps
from mtf_imaging.data.pixels.photo_files import photo_size, read_photo
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import DataError
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
from mtf_imaging.kinds.output import (
    check_kept,
    check_predictions,
    is_folder,
    plan_outputs,
    subfolders,
    write_picture,
    writing_results,
)
from mtf_imaging.kinds.photos.description import PhotoDescription, check_same_classes, photo_description_from_fields
from mtf_imaging.kinds.photos.infer import most_probable, padded_sizes, predict_photos, prediction_multiple, scaled_size
from mtf_imaging.kinds.photos.output import evaluation_files, output_files
from mtf_imaging.kinds.photos.pictures import comparison, overlay
from mtf_imaging.kinds.photos.reading.folders import CLASSES_FILE, Photo, find_photos, photo_description, splits
from mtf_imaging.kinds.photos.reading.label_counts import survey_photos
from mtf_imaging.kinds.photos.reading.label_images import read_labeled_photo, write_label_image
from mtf_imaging.kinds.photos.reading.native import padded_size
from mtf_imaging.kinds.photos.report.layers import WorstPhotos
from mtf_imaging.kinds.photos.scoring.scores import PhotoScore, score_photo
from mtf_imaging.kinds.photos.write import write_photo_scores
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles, PredictionRecord
from mtf_imaging.network.network import Network
from mtf_imaging.settings.values import check_flips, check_scales

if TYPE_CHECKING:
    from mtf_imaging.settings.inference import EvaluateSettings, PredictSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

_logger = logging.getLogger(__name__)
_IDLE = {
    "spacing": "photos have no voxel size",
    "window": "photos are scaled as in training",
    "sliding_window": "photos are computed as a whole",
    "window_step": "photos are computed as a whole",
    "cleanup": "its rules are for the labels of volumes",
    "choose_cleanup": "its rules are for the labels of volumes",
    "fold": "the held-out photos are those of a list, which split names",
    "splits_file": "the held-out photos are those of a list, which split names",
    "submission": "the challenge has no photos",
    "spacing_table": "photos have no voxel size",
    **dict.fromkeys(("label_codes", "probabilities", "uncertainty"), "it concerns segmentations of volumes"),
    "output_format": "segmentations of photos are PNG files",
}


class Prediction(FileImages):
    """Photos that a network segments at their own sizes.

    Args:
      run: the run folder.
      facts: the run's facts.
      settings: the job settings.

    Raises:
      ConfigError: a setting is invalid or has no effect on photos.
      DataError: the run's facts are damaged.
    """

    kind = "photos"

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        super().__init__(facts, settings, _IDLE)
        self._flips = check_flips(settings.flips, axis_names=PHOTO_AXES)
        self._scales = check_scales(settings.scales)
        self.description: PhotoDescription = photo_description_from_fields(facts.description, str(run / FACTS))
        self._multiple = 1

    def find(self, path: Path) -> list[Photo]:
        return find_photos(path, need_labels=False)

    def labeled(self, folder: Path) -> list[Photo]:
        split = self._settings.split
        photos = find_photos(folder, self._held_out_split if split is None and splits(folder) else split)
        for text in survey_photos(photos, self._labels_description(folder)).warnings(is_held_out=True):
            _logger.warning("%s: %s", folder, text)
        return photos

    def check_results(self, output_dir: Path, images: Sequence[Photo], input_dir: Path) -> None:
        written = [evaluation_files(photo, output_dir) for photo in images]
        inputs = (path for photo in images for path in (photo.image, photo.labels) if path)
        check_kept(inputs, itertools.chain(*written), "results")
        ours = {labels for labels, _ in written}
        where = f"; the photos are those of {input_dir}"
        pictures = (picture for _, picture in written)
        check_predictions(output_dir, ours, "photos", "photos that are not evaluated", where, "**/*.*", pictures)

    def plan_files(self, images: Sequence[Photo], input_path: Path, output_path: Path) -> Planned:
        photos, outputs, faults = plan_outputs(images, lambda photo: output_files(photo, input_path, output_path))
        return Planned([(photo, files.labels) for photo, files in zip(photos, outputs, strict=True)], faults)

    def prediction_files(self, pairs: list[tuple[Photo, Path]], input_path: Path, output_path: Path) -> PredictionFiles:
        images = (ImageFiles((photo.image,), (*output_files(photo, input_path, output_path),)) for photo, _ in pairs)
        return PredictionFiles((*images,), folder=output_path if is_folder(input_path, output_path) else None)

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Photo]) -> Network:
        self._multiple = prediction_multiple(settings.task)
        # The size of the first photo to predict, so that its program is built first.
        height, width = scaled_size(photo_size(images[0].image), self._scales[0])
        sizes = padded_size(height, width, self._size, self._multiple)
        settings = dataclasses.replace(settings, batch_size=self._settings.eval_batch_size)
        return trained_network(settings, runs, [sizes], any_size=True)

    def run_network(self, images: Sequence[Photo], network: Network) -> None:
        for batch in self._batches(images):
            self._segment(batch, [_read(photo) for photo in batch], network)

    def evaluate(
        self, images: Sequence[Photo], network: Network, own: "EvaluateSettings", provenance: Provenance | None = None
    ) -> list[PhotoScore]:
        output_dir, description = Path(own.output_dir), self._labels_description(own.input_dir)
        files: dict[str, dict[str, Stamp]] = {}
        scores, worst, faults = [], WorstPhotos(), CaseFaults(at_once=not is_alone())
        predictions, pictures = zip(*(evaluation_files(photo, output_dir) for photo in images), strict=True)
        pictures, numbers = pictures[: own.num_pictures], {photo.key: number for number, photo in enumerate(images)}
        with writing_to(output_dir, *subfolders(output_dir, [*predictions, *pictures])):
            shown = tqdm(total=len(images), desc="evaluate", unit="photo", disable=not own.progress)
            for batch in self._batches(images):
                labeled: list[tuple[Photo, np.ndarray, np.ndarray]] = []
                for photo in batch:
                    with faults.collect(photo.key, photo.image):
                        labeled.append((photo, *read_labeled_photo(photo, description)))
                segmented: list[np.ndarray] = []
                if labeled:
                    photos = [photo for photo, *_ in labeled]
                    with faults.collect(photos[0].key, photos[0].image):
                        segmented = self._segment(photos, [pixels for _, pixels, _ in labeled], network)
                for (photo, pixels, reference), labels in zip(labeled, segmented, strict=False):
                    number = numbers[photo.key]
                    with faults.collect(photo.key, photo.image):
                        write_label_image(predictions[number], labels, description)
                        if number < own.num_pictures:
                            write_picture(pictures[number], comparison(pixels, labels, reference, description))
                        scores.append(score_photo(photo.key, labels, reference, description))
                        worst.add(scores[-1], pixels, labels, reference, description)
                        files[photo.key] = stamps(
                            prediction=predictions[number], reference=photo.labels, image=photo.image
                        )
                shown.update(len(batch))
            shown.close()
            faults.check((photo.key for photo in images), "photos")
            write_photo_scores(
                output_dir,
                scores,
                worst.layers,
                description,
                own.progress,
                (provenance or Provenance()).with_files(files),
            )
        return scores

    def predict(
        self,
        pairs: list[tuple[Photo, Path]],
        network: Network | None,
        own: "PredictSettings",
        record: PredictionRecord,
        faults: CaseFaults,
    ) -> list[Path]:
        input_path, output_path = Path(own.input), Path(own.output)
        outputs = [output_files(photo, input_path, output_path) for photo, _ in pairs]
        with writing_results(input_path, output_path, itertools.chain(*outputs)), record.open():
            for number in tqdm(record.unfinished, desc="predict", unit="photo", disable=not own.progress):
                photo, files = pairs[number][0], outputs[number]
                assert network is not None, "a photo is unfinished"
                with faults.collect(photo.key, photo.image):
                    pixels = _read(photo)
                    (labels,) = self._segment([photo], [pixels], network)
                    with record.writing(number):
                        write_picture(files.overlay, overlay(pixels, labels, self.description))
                        write_label_image(files.labels, labels, self.description)
        return [path for _, path in pairs]

    def _segment(self, photos: Sequence[Photo], pixels: Sequence[np.ndarray], network: Network) -> list[np.ndarray]:
        """Returns the pixel classes of each photo, uint8 `[height, width]`."""
        options = self.description, self._size, self._multiple, self._scales, self._flips
        files = [photo.image for photo in photos]
        return [most_probable(own) for own in predict_photos(pixels, network.predict_batch, *options, files)]

    def _batches(self, photos: Sequence[Photo]) -> Iterator[list[Photo]]:
        """Yields photos, in order, in batches with the same network input size."""

        def sizes(photo: Photo) -> tuple[tuple[int, int], ...]:
            return padded_sizes(photo_size(photo.image), self._size, self._multiple, self._scales)

        return batches(photos, self._settings.eval_batch_size, sizes)

    def _labels_description(self, input_dir: str | Path) -> PhotoDescription:
        """Returns the description of a folder's label images, which may store other values than in training.

        Raises:
          DataError: the folder does not have the classes of the training data.
        """
        ours = self.description
        try:
            own = photo_description(input_dir)
        except DataError:
            if (Path(input_dir) / CLASSES_FILE).exists():
                raise
            return ours  # the folder does not name its classes
        check_same_classes(input_dir, own, ours)
        return dataclasses.replace(own, scaling=ours.scaling)


def _read(photo: Photo) -> np.ndarray:
    """Returns the pixels of a photo, upright unless it has a label image, which has the stored orientation."""
    return read_photo(photo.image, upright=photo.labels is None)
