"""Predicts images with a trained network."""

from pathlib import Path

from mtf_imaging.jobs.inference import network_of_run, open_images
from mtf_imaging.settings.inference import PredictSettings
from mtf_imaging.settings.setting import takes


@takes(PredictSettings)
def predict(own: PredictSettings) -> list[Path]:
    """Segments one image or all images of a folder, or detects their objects, each in its original geometry.

    The images are volumes, photos if the run was trained on `Photos`, or images with objects if it was trained on
    `Objects`. Settings without effect on them are refused.

    If the program runs as several processes, every process makes the same call. All of them compute the network, and
    process 0 writes the files.

    Returns:
      The paths of the written files.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError, DataError, LayoutError: an argument or a file is invalid.
    """
    subject, planned = open_images(own), own.planned
    if planned is None:
        planned = subject.plan_predictions(own.input, own.output, own.overwrite)
    images = [image for image, _ in planned]
    with network_of_run(subject, own, images) as (group, network):
        if not group.is_first:
            subject.run_network(images, network)
            return [*dict.fromkeys(path for _, path in planned)]
        return subject.predict(planned, network, own)
