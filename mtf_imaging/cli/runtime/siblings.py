"""Finds the folders related to a records folder, for the last line of a command."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

if TYPE_CHECKING:  # imports NumPy
    from mtf_imaging.data.records.manifest import Manifest

_SIBLINGS = 100  # the maximum number of folders to search for cases


def with_held_out(folder: Path, manifest: "Manifest") -> tuple[Path, Path | None]:
    """Returns the records to train on and the held-out records.

    Two sets in the same folder with the same sampling, equivalent descriptions and different cases are a
    training set and a held-out set.
    """
    from mtf_imaging.data.description.differences import differences
    from mtf_imaging.data.records.manifest import read_manifest
    from mtf_imaging.errors import DataError

    for other in _siblings(folder):
        try:
            records = read_manifest(other)
        except (DataError, OSError):
            continue
        if records is None or differences(records.description, manifest.description):
            continue
        if records.sampling == manifest.sampling and not {*records.cases} & {*manifest.cases}:
            # Of two sets with equally many cases, the held-out set was converted last.
            return (folder, other) if len(manifest.cases) > len(records.cases) else (other, folder)
    return folder, None


def held_out_cases(values: flags.FlagValues, fold: int | None) -> Path | None:
    """Returns the source folder of the held-out records, if it is in the same folder as the records.

    Without a fold, the folder must not contain other cases, because evaluate scores the whole folder.
    """
    from mtf_imaging.data.records.manifest import read_manifest
    from mtf_imaging.data.records.splits import held_out_keys
    from mtf_imaging.errors import MtfImagingError

    data_dir = values.data_dir if fold is not None else values.eval_dir
    if not data_dir:
        return None
    try:
        manifest = read_manifest(data_dir)
        keys = manifest and (manifest.cases if fold is None else held_out_keys(fold, None, values.model_dir))
        for folder in _siblings(Path(data_dir)) if keys else ():
            if _holds(folder, manifest, keys, only=fold is None):
                return folder
    except (MtfImagingError, OSError):
        return None
    return None


def _holds(folder: Path, manifest: "Manifest", keys: Iterable[str], only: bool) -> bool:
    """Returns whether a folder contains the source files of records; compares the bytes of the first case."""
    from mtf_imaging.data.cases.cases import Case
    from mtf_imaging.data.listing.image_files import image_files
    from mtf_imaging.data.listing.image_formats import VOLUME_FORMATS

    sources = {key: manifest.sources[key] for key in keys}
    names = [name for one in sources.values() for name in (one.volume, one.labels)]
    if any(name.startswith("/") or ".." in Path(name).parts for name in names):  # not case files in a folder
        return False
    files = {folder / name for name in names}
    if len(files) != 2 * len(sources) or not all(file.exists() for file in files):
        return False
    if only and any(path not in files for path in image_files(folder, VOLUME_FORMATS, needed=False)):
        return False
    key, source = next(iter(sources.items()))
    return Case(key, folder / source.volume, folder / source.labels, "").digest() == source.digest


def _siblings(folder: Path) -> Iterator[Path]:
    """Yields the other folders in the parent of a folder."""
    others = (path for path in sorted(folder.parent.iterdir()) if path.is_dir() and not path.samefile(folder))
    yield from (path for _, path in zip(range(_SIBLINGS), others))
