"""Find which prediction belongs to which reference in two folders of segmentations."""

import re
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.cases import natural_key
from mtf_imaging.data.cases.listing import nifti_files, nifti_stem
from mtf_imaging.errors import DataError

_VOLUME = re.compile(r"(test-)?volume-\d+\.")
_NUMBER = re.compile(r".*?(\d+)\D*$", re.DOTALL)


@dataclass(frozen=True)
class Pair:
    """A case to score.

    Attributes:
      key: the case: the number that both names end with, or their common stem.
      prediction: file of the predicted segmentation.
      reference: file of the reference.
      volume: file of the CT, where it is known.
    """

    key: str
    prediction: Path
    reference: Path
    volume: Path | None = None


def find_pairs(reference_dir: str | Path, prediction_dir: str | Path) -> list[Pair]:
    """Pairs each reference with its prediction, in natural order of the cases.

    Files of the same stem belong together; where not all have one, those whose names have the same last number do,
    whatever stands before it: `segmentation-7.nii` and `test-segmentation-7.nii.gz`, `liver_007.nii.gz`.

    >>> import tempfile
    >>> folders = [Path(tempfile.mkdtemp()) for _ in range(2)]
    >>> for folder, names in zip(folders, (["segmentation-2.nii", "segmentation-10.nii"], ["p_010.nii", "p_002.nii"])):
    ...     for name in names:
    ...         (folder / name).touch()
    >>> [(pair.key, pair.reference.name, pair.prediction.name) for pair in find_pairs(*folders)]
    [('2', 'segmentation-2.nii', 'p_002.nii'), ('10', 'segmentation-10.nii', 'p_010.nii')]

    Args:
      reference_dir: folder of references; volumes, `volume-N`, may lie beside them.
      prediction_dir: folder of predictions. One that belongs to no reference is an error, as is a reference without
        prediction: a score over other cases than meant would not be noticed.

    Returns:
      At least one pair.

    Raises:
      DataError: a folder is missing, empty or unreadable; a file has no partner; two files claim one case; or a link
        points to a missing file.
    """
    folders = Path(reference_dir), Path(prediction_dir)
    files = [_segmentations(folder) for folder in folders]
    keyed = [{nifti_stem(path): path for path in paths} for paths in files]
    if keyed[0].keys() != keyed[1].keys() or any(len(k) < len(f) for k, f in zip(keyed, files, strict=True)):
        keyed = [_by_number(folder, paths) for folder, paths in zip(folders, files, strict=True)]
    references, predictions = keyed
    lonely = [f"{references[key]} has no prediction" for key in references if key not in predictions]
    lonely += [f"{predictions[key]} has no reference" for key in predictions if key not in references]
    if lonely:
        raise DataError(
            f"{prediction_dir}: {len(lonely)} file(s) without their partner in {reference_dir}: {'; '.join(lonely)}. "
            "Fix: add or remove them."
        )
    return [Pair(_short(key), predictions[key], references[key]) for key in sorted(references, key=natural_key)]


def _segmentations(folder: Path) -> list[Path]:
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.is_file() else "does not exist"
        raise DataError(f"{folder}: this folder of segmentations {what}. Fix: give another.")
    files = nifti_files(folder, subfolders=False, accept=lambda name: not _VOLUME.match(name))
    if not files:
        raise DataError(f"{folder}: holds no .nii or .nii.gz file. Fix: give the folder that holds the segmentations.")
    return files


def _by_number(folder: Path, paths: list[Path]) -> dict[str, Path]:
    keyed = {}
    for path in paths:
        key = last_number(nifti_stem(path))
        if key is None:
            raise DataError(
                f"{path}: has no number by which it could be paired. Fix: give both folders files of the same names."
            )
        if key in keyed:
            raise DataError(f"{folder}: {keyed[key].name} and {path.name} are both case {key}. Fix: keep one of them.")
        keyed[key] = path
    return keyed


def last_number(stem: str) -> str | None:
    """The last number of a name, without leading zeros; None where it has none.

    >>> last_number("liver_007_ct"), last_number("liver")
    ('7', None)
    """
    match = _NUMBER.match(stem)
    return str(int(match[1])) if match else None


def _short(key: str) -> str:
    """A case is called as `evaluate` calls it: `segmentation-7` is 7."""
    match = re.fullmatch(r"(test-)?segmentation-(\d+)", key)
    return f"{match[1] or ''}{match[2]}" if match else key
