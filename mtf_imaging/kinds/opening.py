"""Chooses the kind of images by the facts of a run. Does not import TensorFlow."""

from pathlib import Path

from mtf_imaging.kinds.custom import check_axes
from mtf_imaging.kinds.facts import read_facts
from mtf_imaging.kinds.inference import Inference, Subject


def open_subject(run: str | Path, settings: Inference) -> Subject:
    """Returns the images that a trained network predicts, with the settings of a job.

    Args:
      run: the folder of the run.
      settings: the settings.

    Raises:
      ConfigError: a setting has no effect on these images, or only the custom data set of the run can read its images.
      DataError: the file of facts of the run is damaged.
    """
    facts = read_facts(run)
    if facts is not None and facts.kind == "photos":
        from mtf_imaging.kinds.photos.prediction import PhotoImages

        return PhotoImages(Path(run), facts, settings)
    if facts is not None and facts.kind == "objects":
        from mtf_imaging.kinds.objects.prediction import ObjectImages

        return ObjectImages(Path(run), facts, settings)
    if facts is not None:
        check_axes(Path(run), facts)
    from mtf_imaging.kinds.volumes.prediction import Volumes

    return Volumes(Path(run), settings)
