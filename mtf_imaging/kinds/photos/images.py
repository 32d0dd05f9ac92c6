"""Photos that a network segments, each at its own size."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtf_imaging.data.pixels.photo_files import photo_size, read_photo
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.inference.network import Network
from mtf_imaging.kinds.batches import Steps
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.file_images import FileImages
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.kinds.output import check_results, is_folder, plan_outputs, write_picture
from mtf_imaging.kinds.photos.description import PhotoDescription, photo_description_from_fields
from mtf_imaging.kinds.photos.infer import PhotoInference, ReadPhoto, prediction_multiple
from mtf_imaging.kinds.photos.output import evaluation_files, output_files
from mtf_imaging.kinds.photos.pictures import overlay
from mtf_imaging.kinds.photos.reading.folders import Photo, find_photos, splits
from mtf_imaging.kinds.photos.reading.label_counts import survey_photos
from mtf_imaging.kinds.photos.reading.label_images import write_label_image
from mtf_imaging.kinds.photos.scoring.folder import PhotoScoring, labels_description
from mtf_imaging.kinds.predicted import Planned
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles
from mtf_imaging.settings.values import check_flips

if TYPE_CHECKING:
    from mtf_imaging.settings.inference import EvaluateSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

_logger = logging.getLogger(__name__)


class Images(FileImages[Photo, ReadPhoto, np.ndarray]):
    """Photos that a network segments at their own sizes. A result has the class of each pixel.

    Args:
      run: the run folder.
      facts: the run's facts.
      settings: the job settings.

    Raises:
      ConfigError: a setting is invalid or has no effect on photos.
      DataError: the run's facts are damaged.
    """

    kind, noun, nouns = "photos", "photo", "photos"

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        super().__init__(facts, settings)
        averaged = tuple(settings.scales), check_flips(settings.flips, axis_names=PHOTO_AXES)
        self.description: PhotoDescription = photo_description_from_fields(facts.description, str(run / FACTS))
        self._inference = PhotoInference(self.description, self._size, 1, *averaged)

    def find(self, path: Path) -> list[Photo]:
        return find_photos(path, need_labels=False)

    def labeled(self, folder: Path) -> list[Photo]:
        split = self._settings.split
        photos = find_photos(folder, self._held_out_split if split is None and splits(folder) else split)
        for text in survey_photos(photos, labels_description(folder, self.description)).warnings(is_held_out=True):
            _logger.warning("%s: %s", folder, text)
        return photos

    def check_results(self, output_dir: Path, images: Sequence[Photo], input_dir: Path) -> None:
        inputs = [path for photo in images for path in (photo.image, photo.labels) if path]
        files = [evaluation_files(photo, output_dir) for photo in images]
        check_results(files, output_dir, inputs, input_dir, "photos", "**/*.*")

    def plan_files(self, images: Sequence[Photo], input_path: Path, output_path: Path) -> Planned[Photo]:
        photos, outputs, faults = plan_outputs(images, lambda photo: output_files(photo, input_path, output_path))
        return Planned([(photo, files.labels) for photo, files in zip(photos, outputs, strict=True)], faults)

    def prediction_files(self, pairs: list[tuple[Photo, Path]], input_path: Path, output_path: Path) -> PredictionFiles:
        images = (ImageFiles((photo.image,), (*output_files(photo, input_path, output_path),)) for photo, _ in pairs)
        return PredictionFiles((*images,), folder=output_path if is_folder(input_path, output_path) else None)

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Photo]) -> Network:
        self._inference = dataclasses.replace(self._inference, multiple=prediction_multiple(settings.task))
        # The size of the first photo to predict, so that its program is built first.
        sizes, *_ = self._inference.padded_sizes(photo_size(images[0].image))
        return trained_network(settings, runs, [sizes], any_size=True)

    def steps(self, network: Network) -> Steps[Photo, ReadPhoto, np.ndarray]:
        return self._inference.steps(network, _read, self._settings.eval_batch_size)

    def write(
        self, image: Photo, read: ReadPhoto, result: np.ndarray, outputs: Sequence[Path], provenance: Provenance | None
    ) -> list[dict[str, Any]]:
        labels, picture = outputs
        write_picture(picture, overlay(read.pixels, result, self.description))
        write_label_image(labels, result, self.description)
        return []

    def scoring(self, own: "EvaluateSettings", provenance: Provenance) -> PhotoScoring:
        return PhotoScoring(own, self.description, provenance)


def _read(photo: Photo) -> ReadPhoto:
    """Reads a photo, upright unless it has a label image, which has the stored orientation."""
    return ReadPhoto(read_photo(photo.image, upright=photo.labels is None))
