"""Predicts labeled images with a trained network, and scores the predictions."""

from mtf_imaging.jobs.runs.ensembles import check_no_fold
from mtf_imaging.jobs.runs.inference import network_of_run, open_images, provenance
from mtf_imaging.kinds.all_kinds import KINDS, settings_not_taken, with_kinds
from mtf_imaging.kinds.loop import evaluate_images, follow
from mtf_imaging.settings.inference import EvaluateSettings
from mtf_imaging.settings.setting import takes


@takes(EvaluateSettings, with_kinds)
def evaluate(own: EvaluateSettings) -> list:
    """Predicts each case with the weights of a run, scores it at its original resolution, and writes a report.

    The cases are volumes, photos if the run was trained on `Photos`, or images with objects if it was trained on
    `Objects`. Settings without effect on them are refused.

    The function writes `predictions/` (for objects, `detections.json`), `pictures/`, `metrics.json`, `metrics.csv` and
    `report.html` to the output folder.

    If the program runs as several processes, every process makes the same call. All of them compute the network, and
    process 0 writes and prints the results.

    Returns:
      The scores of each case; an empty list in all processes except process 0.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError, DataError, LayoutError: an argument or a folder is invalid, or the checkpoint is damaged.
    """
    check_no_fold(own.ensemble, own.fold)
    subject = open_images(own)
    images = subject.find_labeled(own.input_dir, own.output_dir) if own.cases is None else own.cases
    with network_of_run(subject, own, images) as (group, network, _, runs):
        assert network is not None, "there are images"
        if not group.is_first:
            follow(subject, images, network)
            return []
        idle = settings_not_taken(KINDS[subject.kind])
        return evaluate_images(subject, images, network, own, provenance(own, runs, idle, subject.cleanup.names))
