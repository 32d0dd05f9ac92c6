"""Predicts images with a trained network."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.provenance.runs import TrainedRun
from mtf_imaging.jobs.runs.inference import network_of_run, newest_runs, open_images, provenance, result_settings
from mtf_imaging.kinds.all_kinds import KINDS, settings_not_taken, with_kinds
from mtf_imaging.kinds.loop import follow, predict_images
from mtf_imaging.kinds.prediction_record import PredictionRecord
from mtf_imaging.settings.as_text import identity
from mtf_imaging.settings.inference import PredictSettings
from mtf_imaging.settings.setting import takes

_DIGITS = 12  # of the digest of a checkpoint
# settings that predict does not have
_OF_EVALUATION = ("fold", "splits_file", "split", "choose_cleanup", "eval_batch_size")


@takes(PredictSettings, with_kinds)
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
    subject, planned = open_images(own, own.input), own.planned
    if planned is None:
        planned = subject.plan_predictions(own.input, own.output, own.overwrite)
    pairs, images = planned.pairs, [image for image, _ in planned.pairs]
    files = subject.prediction_files(pairs, Path(own.input), Path(own.output))

    idle = settings_not_taken(KINDS[subject.kind])

    def new_record(runs: tuple[TrainedRun, ...]) -> PredictionRecord:
        # A layout changes no predictions, so a folder may be completed under another layout.
        origin = dataclasses.replace(provenance(own, runs, idle, subject.cleanup.names), layout=None)
        return PredictionRecord(files, _made_by(own, runs, subject.cleanup), own.overwrite, origin)

    runs = newest_runs(own)
    record = new_record(runs)
    with network_of_run(subject, own, images, record.check) as (group, network, unfinished, restored):
        if network is not None and restored != runs:  # the run, which is training, has saved a newer checkpoint
            record = new_record(restored)
            group.first(record.check)
        faults = CaseFaults(group.num > 1, planned.faults)
        if group.is_first:
            predict_images(subject, planned, files, network, record, faults, own.progress)
        elif network is not None:
            follow(subject, unfinished, network)
    faults.check([*planned.faults, *(image.key for image in images)], subject.nouns)
    written = subject.written(planned, files)
    if group.is_first and own.progress and (text := subject.instructions(written)):
        print(text)
    return written


def _made_by(own: PredictSettings, runs: Sequence[TrainedRun], cleanup: object) -> dict[str, str]:
    """Returns everything besides the images that determines the predictions. A layout does not.

    Args:
      own: the settings.
      runs: the networks.
      cleanup: the rules of the run for its labels.
    """
    weights = ", ".join(f"{run.checkpoint} ({run.checkpoint_digest[:_DIGITS]})" for run in runs)
    values = {name: value for name, value in result_settings(own).items() if name not in _OF_EVALUATION}
    values |= {"task": own.task, "dtype": own.dtype, "averages": bool(own.averages), "cleanup": cleanup}
    return {"checkpoint": weights} | {name: identity(value, name) for name, value in values.items()}
