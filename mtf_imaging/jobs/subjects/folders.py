"""Tells folders of photos from folders of volumes, for messages. Does not import TensorFlow."""

from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.cases.dataset_json import FILE
from mtf_imaging.data.cases.listing import nifti_stem
from mtf_imaging.errors import DataError

if TYPE_CHECKING:  # imports NumPy
    from mtf_imaging.data.photos.description import PhotoDescription


def holds_volumes(path: str | Path) -> bool:
    """Returns whether a path is a NIfTI file, or a folder with one or with a `dataset.json`."""
    path = Path(path)
    if not path.is_dir():
        return nifti_stem(path) is not None
    return (path / FILE).is_file() or any(nifti_stem(file) for file in path.rglob("*.nii*"))


def holds_photos(path: str | Path) -> bool:
    """Returns whether a path is a photo, or a folder of photos without volumes."""
    from mtf_imaging.data.photos.folders import find_photos

    if not Path(path).exists() or holds_volumes(path):
        return False
    try:
        return bool(find_photos(path, need_labels=False))
    except (DataError, OSError):
        return False


def check_no_photos(path: str | Path, fix: str, *settings: str) -> None:
    """Checks that a path does not hold photos where volumes are needed.

    Args:
      path: a file or folder. It may be missing, which other functions report.
      fix: what to do instead, a sentence without "Fix:".
      *settings: names of the keyword arguments in the fix.

    Raises:
      DataError: it holds photos.
    """
    if holds_photos(path):
        raise DataError(f"{path}: holds photos, but volumes are needed here. Fix: {fix}", settings)


def check_same_classes(path: str | Path, own: "PhotoDescription", expected: "PhotoDescription") -> None:
    """Checks that a folder of photos has the classes of the training.

    Args:
      path: the folder.
      own: its description.
      expected: the description of the training data.

    Raises:
      DataError: the classes differ.
    """
    if own.classes != expected.classes:
        raise DataError(
            f"{path}: has the classes {', '.join(own.classes)}, but the network was trained with "
            f"{', '.join(expected.classes)}. Fix: give data like those of the training."
        )


def check_no_volumes(path: str | Path, setting: str) -> None:
    """Checks that a path does not hold volumes where photos are needed.

    Raises:
      DataError: it holds volumes.
    """
    if Path(path).exists() and holds_volumes(path):
        raise DataError(
            f"{path}: holds volumes, but the network was trained on photos. Fix: give photos as {setting}, or the "
            "folder of a run on volumes as model_dir.",
            [setting, "model_dir"],
        )
