"""The record of a prediction: the complete files of a folder, and how they were made.

`predict` writes `predictions.jsonl` to the folder of the predictions. If it is interrupted, or if images are added
later, the same command keeps the complete predictions and makes the missing ones. It never mixes the predictions of two
networks, and never replaces a file that it did not write.
"""

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from mtf_imaging.data.listing.image_files import image_digest
from mtf_imaging.errors import DataError, about
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.record import FILE, read_record
from mtf_imaging.files.provenance.runs import FIELD
from mtf_imaging.files.provenance.text import difference
from mtf_imaging.files.unfinished import Unfinished

_logger = logging.getLogger(__name__)
_FIX = "Fix: name another output, or set overwrite."
_SETTINGS = ("overwrite",)


class ImageFiles(NamedTuple):
    """The files of one image.

    Attributes:
      inputs: the files or folders of the image.
      outputs: the possible files or folders of its prediction; only the files of one form need to exist.
    """

    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]


class PredictionFiles(NamedTuple):
    """The files of a prediction.

    Attributes:
      images: the files of each image.
      shared: the files about all images, which are written last.
      folder: the folder of the files; None if the prediction is a single file, which has no record.
    """

    images: tuple[ImageFiles, ...]
    shared: tuple[Path, ...] = ()
    folder: Path | None = None


class PredictionRecord:
    """The record of the files that `predict` has written to a folder.

    Each line of the file is a JSON object. The first line states how the predictions were made. Before `predict` writes
    the files of an image, it adds a line with their names; afterwards, it adds a line with their digests.

    Args:
      files: the files of the prediction.
      made_by: everything besides the images that determines the predictions, such as the checkpoint, as texts by name.
      overwrite: whether to predict all images again.
      provenance: the provenance of the files that this call writes; None for none.

    Attributes:
      unfinished: the numbers of the images to predict.
      provenance: the provenance of the files that this call writes; None for none.
    """

    def __init__(
        self,
        files: PredictionFiles,
        made_by: Mapping[str, str] | None = None,
        overwrite: bool = False,
        provenance: Provenance | None = None,
    ):
        self._files, self._made_by, self._overwrite = files, dict(made_by or {}), overwrite
        self._own = None if provenance is None else provenance.as_json(lists_cases=False)
        self._origins: list[dict[str, Any]] = []  # of the files in the folder
        self.provenance = provenance
        self._entries: dict[str, dict[str, Any]] = {}
        self._file: TextIO | None = None
        self.unfinished = [*range(len(files.images))]

    def check(self) -> list[int]:
        """Finds the images to predict, and returns their numbers.

        Raises:
          DataError: a prediction was made by another network, with other settings or from another image; or a file
              exists that `predict` did not write, or that has changed since.
        """
        folder = self._files.folder
        if folder is None:
            return self.unfinished
        made_by, self._origins, self._entries = read_record(folder)
        if made_by is not None and made_by != self._made_by:
            present = any(os.path.lexists(folder / name) for name in self._entries)
            if present and not self._overwrite:
                raise self._made_otherwise(folder / FILE, made_by)
            self._origins, self._entries = [], {}
        if not self._overwrite:
            for path in self._files.shared:
                self._is_complete((path,), None)
            kept = {
                number
                for number, image in enumerate(self._files.images)
                if self._is_complete(image.outputs, image.inputs)
            }
            self.unfinished = [number for number in self.unfinished if number not in kept]
            if kept:
                _logger.info("%s: kept %d of %d predictions", folder, len(kept), len(self._files.images))
        return self.unfinished

    def begun(self, number: int) -> Unfinished:
        """Returns what a killed process has finished of the prediction of an image, made in the same way."""
        image = self._files.images[number]
        return Unfinished(image.outputs[0], lambda: json.dumps([self._made_by, _digests(image.inputs)]))

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Writes the record within the block, while this process holds the lock of the folder."""
        folder = self._files.folder
        if folder is None:
            yield
            return
        if self._overwrite:  # if this run is interrupted, files that may be replaced count as begun
            written = (path for image in self._files.images for path in image.outputs)
            existing = (path for path in (*written, *self._files.shared) if os.path.lexists(path))
            self._entries |= {self._name(path): {} for path in existing}
        head: dict[str, Any] = {"made_by": self._made_by}
        if self._own and self._own not in self._origins and (self.unfinished or self._files.shared):
            self._origins.append(self._own)
        if self._origins:
            head[FIELD] = self._origins
        lines = [head, *({"file": name, **entry} for name, entry in self._entries.items())]
        write_bytes(folder / FILE, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
        with open(folder / FILE, "a", encoding="utf-8") as self._file:
            yield
        self._file = None

    @contextlib.contextmanager
    def writing(self, number: int, result: list[Any] | None = None) -> Iterator[None]:
        """Records an image's files, which the block writes.

        Args:
          number: the index of the image.
          result: a list to which the block appends further results of the prediction, as JSON.
        """
        image = self._files.images[number]
        with self._recording(image.outputs, image.inputs, result):
            yield

    @contextlib.contextmanager
    def writing_shared(self) -> Iterator[None]:
        """Records the files about all images, which the block writes."""
        with self._recording(self._files.shared, None, None):
            yield

    def result(self, number: int) -> list[Any]:
        """Returns the further results of an image's prediction."""
        return [*self._entries[self._name(self._files.images[number].outputs[0])].get("result", ())]

    @contextlib.contextmanager
    def _recording(
        self, outputs: Sequence[Path], inputs: Sequence[Path] | None, result: list[Any] | None
    ) -> Iterator[None]:
        if self._file is None:
            yield
            return
        self._append({self._name(path): {} for path in outputs})
        yield
        facts: dict[str, Any] = {} if inputs is None else {"input": _digests(inputs)}
        if self._own in self._origins:
            facts[FIELD] = self._origins.index(self._own)
        entries = {self._name(path): {"sha256": image_digest(path), **facts} for path in outputs}
        if result is not None:
            entries[self._name(outputs[0])]["result"] = result
        self._append(entries)

    def _append(self, entries: Mapping[str, dict[str, Any]]) -> None:
        assert self._file is not None
        assert self._files.folder is not None
        with about(self._files.folder / FILE):
            self._file.write("".join(f"{json.dumps({'file': name, **one})}\n" for name, one in entries.items()))
            self._file.flush()
            os.fsync(self._file.fileno())  # the record contains a file before the file gets its name
        self._entries |= entries

    def _name(self, path: Path) -> str:
        assert self._files.folder is not None
        return path.relative_to(self._files.folder).as_posix()

    def _is_complete(self, outputs: Sequence[Path], inputs: Sequence[Path] | None) -> bool:
        """Returns whether the files of a prediction are complete.

        Raises:
          DataError: they can neither be kept nor replaced.
        """
        entries = [self._entries.get(self._name(path)) for path in outputs]
        complete, now = True, None
        for path, entry in zip(outputs, entries, strict=True):
            if entry is None:
                if os.path.lexists(path):
                    raise DataError(f"{path}: already exists, and predict did not write it. {_FIX}", _SETTINGS)
                complete = False
            elif "sha256" not in entry:
                complete = False  # the run that began the file was interrupted
            else:
                found = image_digest(path)
                if found is not None and found != entry["sha256"]:
                    raise DataError(f"{path}: was changed since predict wrote it. {_FIX}", _SETTINGS)
                complete = complete and found == entry["sha256"]
                if found is not None and inputs is not None:
                    now = now or _digests(inputs)  # once for all files of an image, because images are large
                    if entry.get("input") != now:
                        raise DataError(
                            f"{path}: was predicted from another image than {inputs[0]}, or this image was changed "
                            f"since. {_FIX}",
                            _SETTINGS,
                        )
        return complete

    def _made_otherwise(self, path: Path, made_by: Mapping[str, str]) -> DataError:
        names = [name for name in {**self._made_by, **made_by} if made_by.get(name) != self._made_by.get(name)]
        then, now = difference(*(values.get(names[0], "none") for values in (made_by, self._made_by)))
        more = f"; {', '.join(names[1:])} differ, too" if names[1:] else ""
        return DataError(
            f"{path}: the predictions in this folder were made by another network or with other settings: {names[0]} "
            f"was {then}, and is {now}{more}. {_FIX}",
            _SETTINGS,
        )


def has_record(folder: Path) -> bool:
    """Returns whether a folder contains a prediction record."""
    return (folder / FILE).is_file()


def _digests(images: Sequence[Path]) -> dict[str, str | None]:
    """Returns the digest of each image by its name."""
    return {path.name: image_digest(path) for path in images}
