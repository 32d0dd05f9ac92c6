"""Predicts images with a trained network."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.run_folder import last_index, weights_folder
from mtf_imaging.jobs.as_text import as_text
from mtf_imaging.jobs.ensembles import trained_runs
from mtf_imaging.jobs.inference import network_of_run, open_images, provenance
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.prediction_record import PredictionRecord
from mtf_imaging.settings.inference import MapSettings, PredictSettings
from mtf_imaging.settings.patches import SlidingWindowSettings
from mtf_imaging.settings.setting import settings_of, takes, values_of

_ADDED = {  # added to the records of earlier releases
    one.name: one.default for added in (SlidingWindowSettings, MapSettings) for one in settings_of(added)
}
# settings that predict does not have
_OF_EVALUATION = ("fold", "splits_file", "split", "choose_cleanup", "eval_batch_size")


@takes(PredictSettings)
def predict(own: PredictSettings) -> list[Path]:
    """Segments one image or all images in a folder, or detects their objects, each in its original geometry.

    The images are volumes, photos if the run was trained on `Photos`, or images with objects if it was trained on
    `Objects`. Settings without effect on them are refused.

    If this function has already written to the folder, it completes the folder: predictions of the same network with
    the same settings are kept, and the missing ones are made. The file `predictions.jsonl` records how they were made.
    With `overwrite`, all predictions are made again.

    If the program runs as several processes, every process makes the same call. All of them compute the network, and
    process 0 writes the files.

    Returns:
      The paths of the predictions.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError, LayoutError: an argument is invalid.
      DataError: a file is invalid; or there is a prediction by another network, with other settings, or that this
        function did not write. Images that cannot be read, or whose predictions cannot be written, raise this error
        after the others are done.
    """
    subject, planned = open_images(own), own.planned
    if planned is None:
        planned = subject.plan_predictions(own.input, own.output, own.overwrite)
    pairs, images = planned.pairs, [image for image, _ in planned.pairs]
    files = subject.prediction_files(pairs, Path(own.input), Path(own.output))
    # A layout changes no predictions, so a folder may be completed under another layout.
    origin = dataclasses.replace(provenance(own, subject.idle, subject.cleanup.names), layout=None)
    record = PredictionRecord(files, _made_by(own, subject.cleanup), own.overwrite, origin)
    with network_of_run(subject, own, images, record.check) as (group, network, unfinished):
        faults = CaseFaults(group.num > 1, planned.faults)
        if group.is_first:
            written = subject.predict(pairs, network, own, record, faults)
        else:
            written = [*dict.fromkeys(path for _, path in pairs)]
            if network is not None:
                subject.run_network(unfinished, network)
    faults.check([*planned.faults, *(image.key for image in images)], "images")
    return written


def _made_by(own: PredictSettings, cleanup: Any) -> dict[str, str]:
    """Returns everything besides the images that determines the predictions. A layout does not.

    Args:
      own: the settings.
      cleanup: the rules of the run for its labels.
    """
    weights = []
    for run in trained_runs(own):
        index = last_index(weights_folder(run, own.checkpoint))
        # The index has a checksum of every variable.
        weights.append(f"{index.stem} ({hashlib.sha256(index.read_bytes()).hexdigest()[:12]})")
    values = {name: value for name, value in values_of(Inference, own).items() if name not in _OF_EVALUATION}
    values["cleanup"] = cleanup
    settings = {name: as_text(value) for name, value in values.items() if (name, value) not in _ADDED.items()}
    made_by = {"checkpoint": ", ".join(weights), "task": as_text(own.task), "dtype": own.dtype, **settings}
    return made_by if own.averages else made_by | {"averages": as_text(own.averages)}
