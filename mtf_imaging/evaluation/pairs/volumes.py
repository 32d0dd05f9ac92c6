"""Finds the CT that belongs to a reference segmentation."""

import dataclasses
import functools
import logging
import re
from collections.abc import Callable
from pathlib import Path

from mtf_imaging.data.listing.dicom_files import holds_dicom
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import PNG, SCORED_FORMATS, TIFF, VOLUME_FORMATS, ImageFormat
from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.pairs import Pair, last_number
from mtf_imaging.plain_text import some

_log = logging.getLogger(__name__)


def add_volumes(pairs: list[Pair], volume_dir: str | Path | None = None) -> list[Pair]:
    """Adds the paths of the CTs to pairs of references and predictions.

    Args:
      pairs: the pairs.
      volume_dir: folder of the CTs. Their names follow LiTS, nnU-Net or MSD, equal the references' names, or end with
        the same number. Default: `volume-N` in the folder of `segmentation-N`, or `imagesTr` next to `labelsTr`.

    Returns:
      The pairs in the same order; `volume` is None if no CT was found.

    Raises:
      DataError: `volume_dir` is missing or does not contain any of the CTs.
    """
    if volume_dir is None:
        listed = functools.cache(_images_by_name)  # cached, because a folder has many references
        return [dataclasses.replace(pair, volume=_beside(pair.reference, listed)) for pair in pairs]
    files = _files(Path(volume_dir))
    found = [dataclasses.replace(pair, volume=_among(files, pair.reference)) for pair in pairs]
    missing = [pair.reference.name for pair in found if pair.volume is None]
    if len(missing) == len(found):
        raise DataError(
            f"{volume_dir}: holds {len(files)} {VOLUME_FORMATS.name} image(s), but no CT of {missing[0]} or of another "
            "reference. Fix: name the folder of the CTs, with file names as in LiTS or equal to the references' names."
        )
    if missing:
        _log.warning("%s: no CT found for %d reference(s): %s", volume_dir, len(missing), some(missing))
    return found


def _beside(reference: Path, listed: Callable[[Path, ImageFormat], dict[str, Path]]) -> Path | None:
    """Returns the image of a segmentation, from its folder or from the adjacent image folder."""
    image_format, folders, stem = _image_format(reference), [], _stem(reference)
    if lits := _lits_stem(stem):
        folders.append((reference.parent, [lits]))
    if match := re.fullmatch(r"labels(Tr|Ts|Va)", reference.absolute().parent.name):
        folders.append((reference.absolute().parent.parent / f"images{match[1]}", [f"{stem}_0000", stem]))
    for folder, stems in folders:
        images = listed(folder, image_format)
        if same := [images[stem] for stem in stems if stem in images]:
            return same[0]
        if series := [folder / stem for stem in stems if image_format.has_dicom and holds_dicom(folder / stem)]:
            return series[0]
    return None


def _among(files: dict[str, Path], reference: Path) -> Path | None:
    stem = _stem(reference)
    files = {name: path for name, path in files.items() if path.resolve() != reference.resolve()}
    for name in (_lits_stem(stem), f"{stem}_0000", stem):
        if name in files:
            return files[name]
    number = last_number(stem)
    same = [path for name, path in files.items() if number and last_number(name.removesuffix("_0000")) == number]
    return same[0] if len(same) == 1 else None


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise DataError(f"{folder}: this folder of CTs does not exist. Fix: name an existing folder, or omit it.")
    listed = image_files(folder, VOLUME_FORMATS, subfolders=False, needed=False)
    stems = {normalize_name(VOLUME_FORMATS.stem(path)): path for path in listed}
    return {stem: path for stem, path in stems.items() if not _lits_stem(stem)}  # the folder may contain segmentations


def _images_by_name(folder: Path, image_format: ImageFormat) -> dict[str, Path]:
    """Returns the images in a folder, except DICOM, by name without the ending; {} if there is no folder."""
    image_format = dataclasses.replace(image_format, has_dicom=False)
    if not folder.is_dir():
        return {}
    paths = image_files(folder, image_format, subfolders=False, needed=False)
    return {normalize_name(image_format.stem(path)): path for path in paths}


def _stem(reference: Path) -> str:
    """Returns the normalized name of a segmentation."""
    stem = next(one.stem(reference) for one in (PNG, TIFF, SCORED_FORMATS) if one.stem(reference) is not None)
    return normalize_name(stem)


def _image_format(path: Path) -> ImageFormat:
    """Returns the possible format of a segmentation's image."""
    return next((picture for picture in (PNG, TIFF) if picture.stem(path) is not None), VOLUME_FORMATS)


def _lits_stem(stem: str) -> str | None:
    match = re.fullmatch(r"(test-)?segmentation-(\d+)", stem)
    return f"{match[1] or ''}volume-{match[2]}" if match else None
