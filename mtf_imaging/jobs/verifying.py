"""Compares the digests that a run or a result records with the files at hand."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.data.formats.all_formats import read_stored_provenance
from mtf_imaging.data.listing.image_files import image_digest
from mtf_imaging.data.listing.image_formats import is_zarr
from mtf_imaging.errors import DataError
from mtf_imaging.files.provenance.record import FILE as RECORD
from mtf_imaging.files.provenance.record import read_record
from mtf_imaging.files.provenance.runs import read_training
from mtf_imaging.files.provenance.text import parse_provenance
from mtf_imaging.files.run_folder import CONFIG, FACTS, fold_folders, is_run
from mtf_imaging.jobs.informing import CARD, METRICS, existing, stored_provenance

OK, CHANGED, MISSING = "ok", "changed", "missing"
_PARENTS = 3  # the folders above a file that may record it


class Compared(NamedTuple):
    """A file or an image that was compared with its recorded digest.

    Attributes:
      title: what the file is, with its name.
      status: "ok", "changed" or "missing".
      recorded: the recorded SHA-256.
      found: the SHA-256 of the file at hand; None if it is missing.
    """

    title: str
    status: str
    recorded: str
    found: str | None


class _Item(NamedTuple):
    """A recorded digest.

    Attributes:
      title: what the file is.
      name: the name of the file.
      sha256: its digest.
      folder: the folder of the result that contains the file; None if the file belongs to other folders.
      run: for a file of a run, the name of the run's folder.
    """

    title: str
    name: str
    sha256: str
    folder: Path | None = None
    run: str = ""


def verify(path: str | Path, *, files: Sequence[str | Path] = ()) -> tuple[list[Compared], int]:
    """Compares the digests that a run or a result records with the files at hand.

    The files of the result itself are always compared: its predictions, the files of an exported model, and the
    configuration of a run. Images, references, predictions that were scored, and the runs of the networks are in other
    folders, whose paths a result does not record. TensorFlow is not imported.

    Args:
      path: a run, scores, predictions or an exported model: its folder, or one of its files.
      files: the folders of these other files, which are found by their names, also in subfolders.

    Returns:
      The files that were compared, and the number of files that were not, because `files` is empty.

    Raises:
      DataError: the path records no digests, none of them can be compared, or a file cannot be read.
    """
    path = existing(path)
    items, at_hand = [*_items(path)], _Files(files)
    compared = [at_hand.compare(item) for item in items if item.folder or files]
    if not items:
        raise DataError(f"{path}: records no digests of files. Fix: give a run, or a result of this program.")
    if not compared:
        raise DataError(
            f"{path}: the {len(items)} files whose digests it records are in other folders. Fix: name the folders of "
            "the images, references and runs as files.",
            ["files"],
        )
    return compared, len(items) - len(compared)


class _Files:
    """The files at hand, each of which is read once.

    Args:
      folders: the folders of files that are not part of the result.
    """

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._digest, self._index = functools.cache(image_digest), functools.cache(_index)

    def compare(self, item: _Item) -> Compared:
        """Compares a recorded digest with the files of the same name."""
        folders = [item.folder] if item.folder else self._folders
        found = [path for folder in folders for path in self._index(folder).get(item.name, [])]
        title = f"{item.title} {item.name}"
        for path in found:
            if self._digest(path) == item.sha256:
                return Compared(title, OK, item.sha256, item.sha256)
        if item.run:  # other runs have checkpoints of the same name
            found = [path for path in found if item.run in (path.parent.name, path.parent.parent.name)]
        if not found:
            return Compared(title, MISSING, item.sha256, None)
        return Compared(title, CHANGED, item.sha256, self._digest(found[0]))


def _index(folder: Path) -> dict[str, list[Path]]:
    """Returns the files and folders in a folder, by name and by path in the folder."""
    if not folder.is_dir():
        raise DataError(f"{folder}: is not a folder. Fix: name the folders of the files to compare.", ["files"])
    index: dict[str, list[Path]] = {}
    for here, folders, names in os.walk(folder.resolve()):
        for name in sorted([*folders, *names]):
            path = Path(here, name)
            for key in {name, path.relative_to(folder.resolve()).as_posix()}:
                index.setdefault(key, []).append(path)
        folders[:] = [name for name in folders if not is_zarr(Path(name))]
    return index


def _items(path: Path) -> Iterator[_Item]:
    """Yields the digests that a path records, or that the folders above a file record for it."""
    if path.is_dir() and not is_zarr(path):
        yield from _of_folder(path)
    elif path.name in (METRICS, RECORD, CARD, CONFIG, FACTS) or path.suffix == ".html":
        yield from _of_folder(path.parent)
    else:
        resolved = path.resolve()
        for folder in resolved.parents[:_PARENTS]:
            items = [item for item in _of_folder(folder) if item.folder and Path(item.name).name == path.name]
            if items:
                yield from items
                return
        yield from _of_runs(parse_provenance(read_stored_provenance(path) or ""))


def _of_folder(folder: Path) -> Iterator[_Item]:
    folds = [run for run in fold_folders(folder).values() if is_run(run)]
    for run in [folder, *folds] if is_run(folder) else folds:
        starts = (read_training(run) or {}).get("starts") or [{}]
        yield from _recorded("configuration", CONFIG, starts[-1].get("configuration_sha256"), run)
    if (folder / METRICS).is_file():
        fields = stored_provenance(folder / METRICS)
        is_own = bool(folds) or "layout" in fields  # score records no layout, and its predictions are elsewhere
        for case, role, name, sha256 in _rows(fields):
            own = folder if role == "prediction" and is_own else None
            yield from _recorded(f"{role} of {case}:", name, sha256, own)
        yield from _of_runs(fields)
    if (folder / CARD).is_file():
        fields = stored_provenance(folder / CARD)
        for _, role, name, sha256 in _rows(fields):
            yield from _recorded(role, name, sha256, folder)
        yield from _of_runs(fields)
    record = read_record(folder)
    for name, entry in record.entries.items():
        yield from _recorded("prediction", name, entry.get("sha256"), folder)
    images = {pair for entry in record.entries.values() for pair in dict(entry.get("input") or {}).items()}
    for name, sha256 in sorted(images):
        yield from _recorded("image", name, sha256)
    for fields in record.provenance:
        yield from _of_runs(fields)


def _of_runs(fields: Mapping[str, Any]) -> Iterator[_Item]:
    for run in fields.get("runs", ()):
        name = str(run["name"])
        index = f"{run['checkpoint']}.index"
        yield from _recorded(f"checkpoint of {name}:", index, run["checkpoint_sha256"], run=name)
        yield from _recorded(f"configuration of {name}:", CONFIG, run["configuration_sha256"], run=name)


def _recorded(title: str, name: str, sha256: object, folder: Path | None = None, run: str = "") -> Iterator[_Item]:
    if isinstance(sha256, str):  # nothing is recorded about files that were not finished
        yield _Item(title, name, sha256, folder, run)


def _rows(fields: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yields the case, the role, the name and the digest of each file of scores or of a model."""
    for case, digests in fields.get("files", {}).items():
        for role, sha256 in digests.items():
            yield case, role, fields["file_names"][case][role], sha256
