"""Reports the origin of a run or a result."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.data.listing.image_files import image_digest
from mtf_imaging.errors import CheckpointError, DataError
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.files.provenance.record import FILE as RECORD
from mtf_imaging.files.provenance.record import read_record
from mtf_imaging.files.provenance.runs import FIELD, read_training, trained_run
from mtf_imaging.files.provenance.text import (
    UNKNOWN,
    Row,
    package_text,
    parse_provenance,
    provenance_rows,
    run_rows,
    short,
    training_rows,
)
from mtf_imaging.files.reading import check_not_special
from mtf_imaging.files.run_folder import CONFIG, FACTS, fold_folders, is_run

METRICS, CARD = "metrics.json", "input.json"


class Origin(NamedTuple):
    """The origin of a file or folder.

    Attributes:
      title: the kind of file or folder, with its path.
      rows: names and texts, as `mtf-imaging info` prints them.
      fields: the same as JSON values.
    """

    title: str
    rows: list[Row]
    fields: dict[str, Any]


def info(path: str | Path) -> list[Origin]:
    """Returns the origin of a run or a result: the program, the networks, the rules and the files.

    Nothing is computed, and TensorFlow is not imported.

    Args:
      path: the folder of a run or of a cross-validation; the folder of an evaluation, its `metrics.json` or its report;
        an exported model; a folder of predictions; or a prediction: a segmentation, a map, or another
        file in such a folder.

    Returns:
      An entry for each run in the folder, and for its scores, model or predictions.

    Raises:
      DataError: the path does not exist or has another kind, or a file is damaged.
    """
    path = existing(path)
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if not found:
        raise DataError(
            f"{path}: is neither a run nor a result of this program. Fix: give the folder of a run, of an evaluation, "
            "of an exported model or of predictions, or one of their files."
        )
    return found


def existing(path: str | Path) -> Path:
    """Returns the path of a run or of a result.

    Raises:
      DataError: there is nothing, or a file that cannot be read, such as a pipe.
    """
    path = Path(path)
    check_not_special(path)
    if not path.exists():
        raise DataError(f"{path}: does not exist. Fix: give the path of a run or of a result.")
    return path


def stored_provenance(path: Path) -> dict[str, Any]:
    """Returns the provenance in a JSON file; {} if it has none."""
    fields = read_object(path, "write it again, with the command that computed it").get(FIELD)
    return fields if isinstance(fields, dict) else {}


def _of_folder(folder: Path) -> list[Origin]:
    found = [_run(folder)] if is_run(folder) else []
    found += [_run(run) for run in fold_folders(folder).values() if is_run(run)]
    for name, what in ((METRICS, "scores"), (CARD, "exported model")):
        if (folder / name).is_file():
            found.append(_json(folder / name, what))
    if (folder / RECORD).is_file():
        found += _predictions(folder)
    return found or _stored(folder) or _beside(folder)


def _of_file(path: Path) -> list[Origin]:
    if path.name == METRICS or path.suffix == ".html":
        own = path.with_name(METRICS)
        return [_json(own, "scores")] if own.is_file() else []
    if path.name == RECORD:
        return _predictions(path.parent)
    if stored := _stored(path):
        return stored
    if path.name in (CONFIG, FACTS) and is_run(path.parent):
        return [_run(path.parent)]
    if (path.with_name(CARD)).is_file():
        return [_json(path.with_name(CARD), "exported model")]
    return _beside(path)


def _beside(path: Path) -> list[Origin]:
    """Returns the origin of a prediction from the record in a parent folder; [] if there is none."""
    for folder in list(path.absolute().parents)[:2]:  # overlays are in a subfolder
        name = path.absolute().relative_to(folder).as_posix()
        record = read_record(folder)
        if name in record.entries:
            rows, fields = _recorded(folder, name)
            return [Origin(f"prediction {path}", rows, fields)]
    return _scored(path)


def _scored(path: Path) -> list[Origin]:
    """Returns the origin of an `evaluate` prediction from the scores in a parent folder; [] if there is none."""
    for folder in list(path.absolute().parents)[:3]:  # photo names may include a folder
        own = _json(folder / METRICS, "scores") if (folder / METRICS).is_file() else None
        files = own.fields.get("files") if own else None
        if own is None or not isinstance(files, Mapping):
            continue
        now = image_digest(path)
        cases = [str(key) for key, one in files.items() if isinstance(one, Mapping) and one.get("prediction") == now]
        if cases and now is not None:
            rows = [("file", f"unchanged since {METRICS} was written, {short(now)}"), ("case", ", ".join(cases))]
            fields = {"unchanged": True, "cases": cases, **own.fields}
            return [Origin(f"prediction {path}", [*rows, *own.rows], fields)]
        if path.absolute().relative_to(folder).parts[0] == "predictions":
            rows = [("file", f"changed since {METRICS} was written, or not among the evaluated files")]
            return [Origin(f"prediction {path}", rows, {"unchanged": False})]
    return []


def _run(folder: Path) -> Origin:
    rows: list[Row] = []
    fields: dict[str, Any] = {"name": os.path.basename(os.path.abspath(folder)), "checkpoints": {}}
    configuration, training = digest(folder / CONFIG), read_training(folder)
    for selection in ("last", "best"):
        try:
            run = trained_run(folder, selection)
        except CheckpointError:
            continue
        own = {name: value for name, value in run.as_json().items() if name.startswith(("checkpoint", "step"))}
        fields["checkpoints"][selection] = own
        rows += [row for row in run_rows(run.as_json()) if row[0] == "checkpoint"]
    if not fields["checkpoints"]:
        rows.append(("checkpoint", "none"))
    rows.append(("configuration", short(configuration)))
    started = [one for one in (training or {}).get("starts", ()) if isinstance(one, Mapping)]
    if started and started[-1].get("configuration_sha256") not in (None, configuration):
        rows[-1] = (
            rows[-1][0],
            f"{rows[-1][1]}, changed since the training, which had {short(started[-1]['configuration_sha256'])}",
        )
    fields |= {"configuration_sha256": configuration, "training": training}
    return Origin(f"run {folder}", [*rows, *training_rows(training)], fields)


def _json(path: Path, what: str) -> Origin:
    """Returns the origin of what a JSON file describes."""
    fields = stored_provenance(path)
    return Origin(f"{what} {path}", provenance_rows(fields), fields)


def _predictions(folder: Path) -> list[Origin]:
    """Returns each provenance in a folder of predictions, with its number of files."""
    record, found = read_record(folder), []
    for number, fields in enumerate(record.provenance):
        names = [name for name, entry in record.entries.items() if entry.get(FIELD) == number]
        if names:
            rows = [("files", str(len(names))), *provenance_rows(fields)]
            found.append(Origin(f"predictions {folder}", rows, {**fields, "predictions": names}))
    return found or [Origin(f"predictions {folder}", [("files", "0")], {"predictions": []})]


def _recorded(folder: Path, name: str) -> tuple[list[Row], dict[str, Any]]:
    """Returns the rows and the fields of a file that a folder's record lists."""
    record, now = read_record(folder), image_digest(folder / name)
    fields, then = record.provenance_of(name, now), record.entries[name].get("sha256")
    if then != now:
        state = "unfinished" if then is None else "changed since predict wrote it"
        return [("file", state)], {"unchanged": False}
    rows = [("file", f"unchanged since predict wrote it, {short(now)}"), *provenance_rows(fields)]
    return rows, {"unchanged": True, **(fields or {})}


def _stored(path: Path) -> list[Origin]:
    """Returns the origin of a segmentation or map, from its own header and from the record; [] for other files."""
    from mtf_imaging.data.formats.all_formats import read_stored_provenance

    text = read_stored_provenance(path)
    if text is None:
        return []
    beside, own = _beside(path), parse_provenance(text)
    rows = [("header", UNKNOWN if not text else package_text(own.get("package")) if own else text)]
    if beside:
        rows += beside[0].rows
    else:
        rows.append(("record", f"neither {RECORD} nor {METRICS} names this file"))
        rows += provenance_rows(own) if own else []
    fields = beside[0].fields if beside else own
    return [Origin(f"prediction {path}", rows, {"header": text, **fields})]
