"""The loops of `predict` and `evaluate`, which are the same for all kinds of data.

A kind finds, reads, infers, scores and writes its images. Progress, resuming and provenance are here, and the batches
of images with the errors of single ones in `batches`.
"""

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.inference.network import Network
from mtf_imaging.kinds.batches import Image, Read, Result
from mtf_imaging.kinds.networks import is_alone
from mtf_imaging.kinds.output import subfolders
from mtf_imaging.kinds.predicted import Planned, PredictedImages
from mtf_imaging.kinds.prediction_record import PredictionFiles, PredictionRecord

if TYPE_CHECKING:
    from mtf_imaging.files.provenance.provenance import Provenance
    from mtf_imaging.settings.inference import EvaluateSettings


def predict_images(
    kind: PredictedImages[Image, Read, Result],
    planned: Planned[Image],
    files: PredictionFiles,
    network: Network | None,
    record: PredictionRecord,
    faults: CaseFaults,
    progress: bool = True,
) -> None:
    """Predicts the images that a record calls unfinished, and writes the results.

    Args:
      kind: the kind of images.
      planned: the images, from `PredictedImages.plan_predictions`.
      files: the files to write, from `PredictedImages.prediction_files`.
      network: the network; None if all predictions are complete.
      record: the record of the prediction.
      faults: receives the errors of single images, which do not end the work on the others.
      progress: whether to show a progress bar.
    """
    images = [image for image, _ in planned.pairs]
    unfinished = {number: images[number] for number in record.unfinished}
    kind.begun = {image.key: record.begun(number) for number, image in unfinished.items()}
    rows = {number: record.result(number) for number in range(len(images)) if number not in unfinished}

    def write(number: int, read: Read, result: Result) -> bool:
        own: list[dict[str, Any]] | None = [] if files.shared else None
        with record.writing(number, own):
            made = kind.write(images[number], read, result, files.images[number].outputs, record.provenance)
            kind.begun[images[number].key].remove()
            if own is not None:
                own += made
        rows[number] = own or []
        bar.update()
        return True

    outputs = [path for image in files.images for path in image.outputs]
    folder = files.folder
    lock = contextlib.nullcontext() if folder is None else writing_to(folder, *subfolders(folder, outputs))
    with lock, record.open(), contextlib.ExitStack() as stack:
        for begun in kind.begun.values():
            stack.callback(begun.close)
        if unfinished:
            assert network is not None
            with tqdm(
                total=len(unfinished), desc="predict", unit=kind.noun, disable=not progress, dynamic_ncols=True
            ) as bar:
                for is_written in kind.steps(network).each(unfinished, write, faults):
                    bar.update(not is_written)
        if files.shared:
            with record.writing_shared():
                kind.write_shared(files.shared, [(images[number], rows[number]) for number in sorted(rows)])


def evaluate_images(
    kind: PredictedImages[Image, Read, Result],
    images: Sequence[Image],
    network: Network,
    own: "EvaluateSettings",
    provenance: "Provenance",
) -> list:
    """Predicts and scores images, and writes the results.

    Args:
      kind: the kind of images.
      images: the images, from `PredictedImages.find_labeled`.
      network: the network.
      own: the settings of the job.
      provenance: the provenance of the scores, without files.

    Returns:
      The scores of each image.
    """
    output_dir, scoring = Path(own.output_dir), kind.scoring(own, provenance)
    files = [scoring.files(image) for image in images]
    files[own.num_pictures :] = [one._replace(picture=None) for one in files[own.num_pictures :]]
    faults = CaseFaults(at_once=not is_alone())

    def score(number: int, read: Read, result: Result) -> object:
        return scoring.score(images[number], read, result, files[number])

    with writing_to(output_dir, *subfolders(output_dir, [path for one in files for path in one if path])):
        steps = dataclasses.replace(kind.steps(network), read=scoring.read)
        scored = scoring.gather(steps.each(dict(enumerate(images)), score, faults), len(images), faults)
        faults.check((image.key for image in images), kind.nouns)
        return scoring.report(images, scored)


def follow(kind: PredictedImages[Image, Read, Result], images: Sequence[Image], network: Network) -> None:
    """Computes this process's part of each prediction, which process 0 scores or writes."""
    steps = kind.steps(network)
    for _ in steps.each(dict(enumerate(images)), lambda number, read, result: kind.send(result)):
        pass
