"""The scoring of a folder of images with objects."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from mtf_imaging.data.listing.image_files import stamps
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.provenance.digests import Stamp
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.batches import in_progress
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.output import DETECTIONS, detections_json, picture_file, write_object_scores
from mtf_imaging.kinds.objects.pictures import comparison
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage, annotation_file
from mtf_imaging.kinds.objects.reading.images import (
    ReadImage,
    read_image,
    seen,
)
from mtf_imaging.kinds.objects.report.layers import make_object_layers
from mtf_imaging.kinds.objects.report.page import pictured
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.objects.scoring.scores import ObjectScore, score_images
from mtf_imaging.kinds.output import write_picture
from mtf_imaging.kinds.predicted import ResultFiles, Scoring
from mtf_imaging.settings.inference import EvaluateSettings


class ObjectScoring(Scoring[ObjectImage, ReadImage, Detections]):
    """The scoring of a folder of images with objects; the average precision needs the detections in all of them.

    Args:
      own: the settings of the job.
      split: the split of the images; None for the only one.
      description: the categories.
      provenance: the provenance of the scores, without files.
    """

    def __init__(
        self, own: EvaluateSettings, split: str | None, description: ObjectDescription, provenance: Provenance
    ) -> None:
        self._own, self._description, self._provenance = own, description, provenance
        self._output_dir, self._annotations = Path(own.output_dir), annotation_file(own.input_dir, split)

    def files(self, image: ObjectImage) -> ResultFiles:
        return ResultFiles(self._output_dir / DETECTIONS, picture_file(self._output_dir, image))

    def read(self, image: ObjectImage) -> ReadImage:
        return read_image(image)

    def score(self, image: ObjectImage, read: ReadImage, result: Detections, files: ResultFiles) -> Detections:
        return result

    def gather(self, made: Iterator[Detections | None], total: int, faults: CaseFaults) -> list[Detections]:
        detections = in_progress(made, total, "evaluate", "image", self._own.progress)
        return [one for one in detections if one is not None]

    def report(self, images: Sequence[ObjectImage], scored: list[Detections]) -> list[ObjectScore]:
        output_dir, own = self._output_dir, self._description
        scores, written = score_images(images, scored, own), detections_json(images, scored, own)
        layers = {
            images[number].key: make_object_layers(
                seen(images[number], scored[number]), scores.matches[number], scores.counted_from, own
            )
            for number in pictured(scores)
        }
        # Written first, because metrics.json shows whether the other results in a folder belong to the same images.
        origin = self._provenance.with_files(self._stamps(images, written))
        write_object_scores(output_dir, scores, layers, own, self._own.progress, origin)
        write_bytes(output_dir / DETECTIONS, written)
        for image, detected in zip(images[: self._own.num_pictures], scored, strict=False):
            picture = comparison(seen(image, detected), own, scores.counted_from)
            write_picture(picture_file(output_dir, image), picture)
        return [*scores.images]

    def _stamps(self, images: Sequence[ObjectImage], written: bytes) -> dict[str, dict[str, Stamp]]:
        files = {image.key: stamps(image=image.image) for image in images}
        files[self._annotations.name] = stamps(reference=self._annotations)
        files[DETECTIONS] = {"prediction": Stamp(DETECTIONS, hashlib.sha256(written).hexdigest())}
        return files
