"""Chooses the workflow for a kind of data."""

from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.all_kinds import KINDS as ALL
from mtf_imaging.kinds.all_kinds import detect_kind
from mtf_imaging.kinds.demo import Workflow
from mtf_imaging.kinds.facts import VOLUMES

KINDS = {demo: kind for kind in ALL.values() for demo in kind.demos}


def choose_workflow(output_dir: Path, input_dir: Path | None, kind: str | None) -> Workflow:
    """Returns the steps for a kind of synthetic data, or for the data in a folder.

    Args:
      output_dir: the folder for all files of the demo.
      input_dir: a folder of cases, photos or images with objects; None for synthetic data.
      kind: the kind of synthetic data, one of `KINDS`; None for livers.

    Raises:
      ConfigError: both a folder and a kind are given, or the folder is a file.
      DataError: the description of the cases is malformed.
    """
    if input_dir is None:
        kind = kind or next(iter(KINDS))
        return KINDS[kind].workflow(output_dir, None, kind)
    if kind:
        raise ConfigError(
            f"--kind {kind} is for synthetic data, but --input_dir is {input_dir}. Fix: leave one of them out."
        )
    if input_dir.is_file():
        raise ConfigError(f"--input_dir {input_dir}: is a file. Fix: give the folder of the cases or images.")
    return (detect_kind(input_dir) or ALL[VOLUMES]).workflow(output_dir, input_dir, None)
