"""Images in which a network detects objects."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.inference.network import Network
from mtf_imaging.kinds.batches import Steps
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.file_images import FileImages
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.kinds.objects.description import ObjectDescription, object_description_from_fields
from mtf_imaging.kinds.objects.infer import NMS_THRESHOLD, ObjectInference
from mtf_imaging.kinds.objects.output import (
    check_object_results,
    detection_output,
    detection_rows,
    of_image,
    rows_json,
    write_image_list,
)
from mtf_imaging.kinds.objects.pictures import SHOWN_SCORE, draw, drawn_detections
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage, find_object_images, splits
from mtf_imaging.kinds.objects.reading.images import ReadImage, upright_detections
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.scoring.folder import ObjectScoring
from mtf_imaging.kinds.output import is_folder, plan_outputs, scaled_size, write_picture
from mtf_imaging.kinds.predicted import Planned, Rows
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles
from mtf_imaging.settings.values import check_flips

if TYPE_CHECKING:
    from mtf_imaging.settings.inference import EvaluateSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns


class Images(FileImages[ObjectImage, ReadImage, Detections]):
    """Images in which a network detects objects, each at its own size.

    Args:
      run: the run folder.
      facts: the run's facts.
      settings: the job settings.

    Raises:
      ConfigError: a setting is invalid or has no effect on images with objects.
      DataError: the run's facts are damaged.
    """

    kind, noun, nouns = "objects", "image", "images"

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        super().__init__(facts, settings)
        averaged = tuple(settings.scales), check_flips(settings.flips, axis_names=PHOTO_AXES)
        self.description: ObjectDescription = object_description_from_fields(facts.description, str(run / FACTS))
        self._inference = ObjectInference(self.description, self._size, *averaged)

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

    def plan_files(self, images: Sequence[ObjectImage], input_path: Path, output_path: Path) -> Planned[ObjectImage]:
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
        threshold = getattr(settings.task, "nms_threshold", NMS_THRESHOLD)
        self._inference = dataclasses.replace(self._inference, threshold=threshold)
        first, *others = dict.fromkeys(scaled_size(self._size, scale) for scale in self._inference.scales)
        return trained_network(settings, runs, [*others, first])

    def steps(self, network: Network) -> Steps[ObjectImage, ReadImage, Detections]:
        return self._inference.steps(network, self._settings.eval_batch_size)

    def write(
        self,
        image: ObjectImage,
        read: ReadImage,
        result: Detections,
        outputs: Sequence[Path],
        provenance: Provenance | None,
    ) -> list[dict[str, Any]]:
        (picture,) = outputs
        shown = drawn_detections(upright_detections(result, read.upright), self.description, SHOWN_SCORE)
        write_picture(picture, draw(read.pixels, shown))
        return detection_rows(image, result, self.description)

    def write_shared(self, files: Sequence[Path], rows: Rows[ObjectImage]) -> None:
        detections, listed = files
        write_image_list(listed, [image for image, _ in rows], self.description)
        write_bytes(detections, rows_json([row for image, own in rows for row in of_image(image, own)]))

    def scoring(self, own: "EvaluateSettings", provenance: Provenance) -> ObjectScoring:
        return ObjectScoring(own, self._split(Path(own.input_dir)), self.description, provenance)


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
