"""Chooses the workflow by the kind of data."""

from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.demo import Workflow
from mtf_imaging.kinds.objects import demo as objects
from mtf_imaging.kinds.photos import demo as photos
from mtf_imaging.kinds.volumes import demo as volumes

KINDS = (*volumes.KINDS, photos.KIND, objects.KIND)
_DEFAULT, _ANY_LABELS = "liver", "brain"  # the job of brains takes the channels and labels of the data


def choose_workflow(output_dir: Path, input_dir: Path | None, kind: str | None) -> Workflow:
    """Returns the steps for synthetic data of a kind, or for the data of a folder.

    Args:
      output_dir: the folder for all files of the demo.
      input_dir: a folder of cases, photos or images with objects; None for synthetic data.
      kind: the kind of synthetic data, of `KINDS`; None for livers.

    Raises:
      ConfigError: both a folder and a kind are given, or the folder is a file.
      DataError: the description of the cases is malformed.
    """
    if input_dir is None:
        if kind == photos.KIND:
            return photos.PhotoWorkflow(output_dir, None)
        if kind == objects.KIND:
            return objects.ObjectWorkflow(output_dir, None)
        return volumes.VolumeWorkflow(output_dir, None, kind or _DEFAULT)
    if kind:
        raise ConfigError(
            f"--kind {kind} is for synthetic data, but --input_dir is {input_dir}. Fix: leave one of them out."
        )
    if input_dir.is_file():
        raise ConfigError(f"--input_dir {input_dir}: is a file. Fix: give the folder of the cases or images.")
    from mtf_imaging.data.description.dataset_json import find_description
    from mtf_imaging.data.description.description import LITS_RULES
    from mtf_imaging.kinds.all_kinds import detect_kind

    folder_kind = detect_kind(input_dir)
    if folder_kind and folder_kind.name == "objects":
        return objects.ObjectWorkflow(output_dir, input_dir)
    if folder_kind and folder_kind.name == "photos":
        return photos.PhotoWorkflow(output_dir, input_dir)
    description = find_description(input_dir)[0]
    is_lits = description is None or description.rules == LITS_RULES
    return volumes.VolumeWorkflow(output_dir, input_dir, _DEFAULT if is_lits else _ANY_LABELS)
