"""Pairs predictions with references by file name."""

import re
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.cases import natural_key
from mtf_imaging.data.listing.foreign_formats import foreign_files, how_to_convert, skipped_text
from mtf_imaging.data.listing.image_files import image_files, stamps
from mtf_imaging.data.listing.image_formats import SCORED_FORMATS, ImageFormat
from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.errors import DataError
from mtf_imaging.files.provenance.digests import Stamp

_VOLUME = re.compile(r"(test-)?volume-\d+\.")
_NUMBER = re.compile(r".*?(\d+)\D*$", re.DOTALL)


@dataclass(frozen=True)
class Pair:
    """A case to score.

    Attributes:
      key: the case key: the last number of both file names, or their common stem.
      prediction: path of the predicted segmentation.
      reference: path of the reference segmentation.
      volume: path of the CT, or None.
      inputs: the files of the image that the prediction was made from, if they belong to the provenance of the scores.
      open_voxels: the file of the voxels whose label thresholds can change, which `evaluate` writes; None without one.
    """

    key: str
    prediction: Path
    reference: Path
    volume: Path | None = None
    inputs: tuple[Path, ...] = ()
    open_voxels: Path | None = None

    def stamps(self) -> dict[str, Stamp]:
        """Returns the names and digests of the prediction, the reference and the image, by role."""
        images = {f"image {number}" if number else "image": path for number, path in enumerate(self.inputs)}
        return stamps(prediction=self.prediction, reference=self.reference, **images)


def find_pairs(
    reference_dir: str | Path, prediction_dir: str | Path, image_format: ImageFormat = SCORED_FORMATS
) -> list[Pair]:
    """Pairs each reference with its prediction, in natural order.

    Files with equal stems form a pair. If some file has no partner with an equal stem, all files are paired by the
    last number in their names instead: `segmentation-7.nii`, `test-segmentation-7.nii.gz` and `liver_007.nii.gz` are
    all case 7.

    >>> import tempfile
    >>> folders = [Path(tempfile.mkdtemp()) for _ in range(2)]
    >>> for folder, names in zip(folders, (["segmentation-2.nii", "segmentation-10.nii"], ["p_010.nii", "p_002.nii"])):
    ...     for name in names:
    ...         (folder / name).touch()
    >>> [(pair.key, pair.reference.name, pair.prediction.name) for pair in find_pairs(*folders)]
    [('2', 'segmentation-2.nii', 'p_002.nii'), ('10', 'segmentation-10.nii', 'p_010.nii')]

    Args:
      reference_dir: folder of references; it may also contain the volumes, `volume-N`.
      prediction_dir: folder of predictions. A file without a partner is an error, because a score over fewer cases
        than intended could go unnoticed.
      image_format: the file format of the segmentations; by default, all formats of volumes.

    Returns:
      One or more pairs.

    Raises:
      DataError: a folder is missing, empty or unreadable; a file has no partner; two files claim one case; or a link
        points to a missing file.
    """
    folders = Path(reference_dir), Path(prediction_dir)
    files = [_segmentations(folder, image_format) for folder in folders]
    keyed = [{_stem(path, image_format): path for path in paths} for paths in files]
    if keyed[0].keys() != keyed[1].keys() or any(len(k) < len(f) for k, f in zip(keyed, files, strict=True)):
        keyed = [_by_number(folder, paths, image_format) for folder, paths in zip(folders, files, strict=True)]
    references, predictions = keyed
    lonely = [f"{references[key]} has no prediction" for key in references if key not in predictions]
    lonely += [f"{predictions[key]} has no reference" for key in predictions if key not in references]
    if lonely:
        raise DataError(
            f"{prediction_dir}: {len(lonely)} file(s) have no partner in {reference_dir}: {'; '.join(lonely)}. "
            "Fix: add the missing files, or correct the names."
        )
    return [Pair(_short(key), predictions[key], references[key]) for key in sorted(references, key=natural_key)]


def _segmentations(folder: Path, image_format: ImageFormat) -> list[Path]:
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.is_file() else "does not exist"
        raise DataError(f"{folder}: this folder of segmentations {what}. Fix: name an existing folder.")
    files = image_files(folder, image_format, subfolders=False, accept=lambda name: not _VOLUME.match(name))
    if not files:
        foreign = foreign_files((path.name for path in folder.iterdir()), image_format)
        what = f", but {skipped_text(map(Path, foreign))}" if foreign else ""
        fix = how_to_convert(foreign) or "name the folder of the segmentations"
        raise DataError(f"{folder}: holds no {image_format.any_ending} file{what}. Fix: {fix}.")
    return files


def _stem(path: Path, image_format: ImageFormat) -> str:
    """Returns the normalized name of a segmentation, for comparison."""
    stem = image_format.stem(path)
    assert stem is not None, path
    return normalize_name(stem)


def _by_number(folder: Path, paths: list[Path], image_format: ImageFormat) -> dict[str, Path]:
    keyed = {}
    for path in paths:
        key = last_number(_stem(path, image_format))
        if key is None:
            raise DataError(
                f"{path}: the file name has no number to pair it by. Fix: use the same file names in both folders."
            )
        if key in keyed:
            raise DataError(f"{folder}: {keyed[key].name} and {path.name} are both case {key}. Fix: keep one of them.")
        keyed[key] = path
    return keyed


def last_number(stem: str) -> str | None:
    """Returns the last number in a name, without leading zeros, or None if there is no number.

    >>> last_number("liver_007_ct"), last_number("liver")
    ('7', None)
    """
    match = _NUMBER.match(stem)
    return str(int(match[1])) if match else None


def _short(key: str) -> str:
    """Returns the key that `evaluate` uses for a case: 7 for `segmentation-7`."""
    match = re.fullmatch(r"(test-)?segmentation-(\d+)", key)
    return f"{match[1] or ''}{match[2]}" if match else key
