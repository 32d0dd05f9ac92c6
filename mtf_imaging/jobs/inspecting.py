"""Shows what was understood of a data set, before anything is computed."""

import contextlib
import dataclasses
import logging
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.cases import Case, DataSet, find_data_set
from mtf_imaging.data.class_frequencies import NUM_VALUES, evenly_spread
from mtf_imaging.data.description.dataset_json import FILE
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.fingerprint import WORKER_BYTES, CaseFingerprint, CaseReader
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.listing.image_formats import FORMATS
from mtf_imaging.data.modality import content_of
from mtf_imaging.data.records.convert import stored_axes
from mtf_imaging.errors import DataError
from mtf_imaging.files.provenance.text import Row, as_table
from mtf_imaging.files.workers import RecordCollector, default_workers, in_parallel, package_logger
from mtf_imaging.jobs.choices.sides import LEFT, RIGHT, sides_of
from mtf_imaging.kinds.all_kinds import KINDS, detect_kind
from mtf_imaging.kinds.facts import VOLUMES
from mtf_imaging.plain_text import counted, text_table
from mtf_imaging.settings.data import InspectSettings
from mtf_imaging.settings.setting import takes

_WIDTH = 120
_OFF_MIDDLE = 0.05  # of the field of view; a label whose middle is nearer to the middle has no side


@dataclasses.dataclass(frozen=True)
class FoundLabel:
    """A label of a data set, in the images that were read.

    Attributes:
      name: its name.
      value: its value in files.
      count: number of its voxels, pixels or objects.
      cases: number of cases that have it; None if it is not counted by case.
      ml: the smallest, median and largest volume in these cases, in mL.
      middle: the median position along x, y and z, in parts of the field of view: 0 is left, back and feet.
      named: the side that its name states.
    """

    name: str
    value: int
    count: int
    cases: int | None = None
    ml: tuple[float, ...] = ()
    middle: tuple[float, ...] = ()
    named: str = ""

    @property
    def side(self) -> str:
        """The side of the field of view on which it lies."""
        off = self.middle[0] - 0.5 if self.middle else 0.0
        return "" if abs(off) < _OFF_MIDDLE else RIGHT if off > 0 else LEFT

    def cells(self) -> list[str]:
        """Returns the cells of its row in a table."""
        low, median, high = (f"{ml:.4g}" for ml in self.ml) if self.ml else "---"
        middle = [f"{at:.2f}" for at in self.middle] or ["-"] * 3
        own = [self.name, str(self.value), f"{self.count:,}"]
        return own if self.cases is None else [*own, str(self.cases), low, median, high, *middle, self.side, self.named]


_NOTE = "x, y, z: the middle of a label in the field of view, from 0 (left, back, feet) to 1 (right, front, head)."
_HEAD = ("label", "value", "count", "cases", "mL: least", "median", "most", "x", "y", "z", "side", "named side")


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What was understood of a data set.

    Attributes:
      rows: names and texts, the most important first.
      labels: the labels.
      faults: what cannot be used, with its fix.
      warnings: what was repaired, ignored or left out, and what looks wrong.
      cases: the files of each case and, if it was read, its size, intensities and labels.
    """

    rows: tuple[Row, ...]
    labels: tuple[FoundLabel, ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cases: tuple[dict[str, Any], ...] = ()

    @property
    def problems(self) -> dict[str, list[str]]:
        """{title: texts} of the faults and warnings; similar texts about several files are one."""
        kinds = {"cannot be used": self.faults, "warning": self.warnings}
        return {
            counted(len(texts), title) if title == "warning" else title: _grouped(texts)
            for title, texts in kinds.items()
            if texts
        }

    def label_table(self) -> list[list[str]]:
        """Returns the head and the rows of the table of labels; [] without labels."""
        rows = [label.cells() for label in self.labels]
        return [[*_HEAD[: len(rows[0])]], *rows] if rows else []

    def text(self) -> str:
        """Returns the inspection as plain text, with the faults before the labels."""
        parts = [as_table(self.rows)]
        for title, texts in self.problems.items():
            parts.append(
                "\n".join(
                    [
                        f"{title}:",
                        *(
                            textwrap.fill(
                                text,
                                _WIDTH,
                                initial_indent="  ",
                                subsequent_indent="    ",
                                break_long_words=False,
                                break_on_hyphens=False,
                            )
                            for text in texts
                        ),
                    ]
                )
            )
        if self.labels:
            note = [] if self.labels[0].cases is None else [_NOTE]
            parts.append("\n".join([*text_table(self.label_table()), *note]))
        return "\n\n".join(parts)


@takes(InspectSettings)
def inspect(own: InspectSettings) -> Inspection:
    """Shows what is understood of a data set: its layout, grids, sides, labels and intensities, and what looks wrong.

    Nothing is computed or written. Of volumes, the headers and voxels of a sample of cases are read.

    Returns:
      The inspection. Cases that cannot be used are among its faults.

    Raises:
      DataError: the path does not exist.
    """
    warn_once.cache_clear()  # an earlier job in this process may have shown the same warnings
    with _collected() as records:
        kind = detect_kind(own.data_dir) or KINDS[VOLUMES]
        found = _volumes(own) if kind.name == VOLUMES else _files(kind, Path(own.data_dir))
    texts = [record.getMessage() for record in records if record.levelno >= logging.WARNING]
    rows = (("data", f"{own.data_dir}, {kind.title}"), *found.rows)
    return dataclasses.replace(found, rows=rows, warnings=(*texts, *found.warnings))


def _volumes(own: InspectSettings) -> Inspection:
    faults: list[str] = []
    data = _find(own.data_dir, faults)
    if data is None:
        return Inspection((), faults=tuple(faults))
    chosen = evenly_spread(data.cases, own.num_cases)
    reader = CaseReader(Path(own.data_dir), data.description, read_spacing_table(own.spacing_table))
    read: dict[str, CaseFingerprint] = {}
    workers = own.workers or default_workers(WORKER_BYTES)
    with tqdm(total=len(chosen), desc="read", unit="case", disable=not own.progress, leave=False) as bar:
        for case, result in in_parallel(reader, chosen, workers):
            if isinstance(result, DataError):
                faults.append(str(result))
            else:
                read[case.key] = result
            bar.update()
    prints = [read[case.key] for case in chosen if case.key in read]
    names, labels, warnings = data.description.labels, [], []
    if any(case.labels and case.key in read for case in chosen):
        sides = sides_of(names)
        labels = [_label(name, data.description, prints, sides.get(name, "")) for name in names]
        counts = np.zeros(NUM_VALUES, np.int64)
        counts[[*names.values()]] = [label.count for label in labels]
        survey = LabelSurvey(names, counts, (), len(prints), len(data.cases), "voxel", "cases", FILE)
        warnings = [*survey.missing_warnings(), *filter(None, map(_wrong_side, labels))]
    return Inspection(
        (*(row for row in data.rows() if not labels or row[0] != "labels"), *_case_rows(data, chosen, prints)),
        tuple(labels),
        tuple(faults),
        tuple(warnings),
        tuple(_case(case, read.get(case.key)) for case in data.cases),
    )


def _find(path: str | Path, faults: list[str]) -> DataSet | None:
    """Returns the cases, those without masks, too, if there is a fault; None if nothing is found."""
    try:
        return find_data_set(path)
    except DataError as error:
        faults.append(str(error))
    with contextlib.suppress(DataError):
        return find_data_set(path, need_labels=False)
    return None


def _case_rows(data: DataSet, chosen: Sequence[Case], prints: Sequence[CaseFingerprint]) -> Iterator[Row]:
    files = (path for case in data.cases for path in (*case.channels, case.labels) if path)
    formats = Counter(next((one.name for one in FORMATS if one.stem(path) is not None), "DICOM") for path in files)
    yield "files", ", ".join(f"{name} {number}" for name, number in formats.items())
    yield "read", f"{len(prints)} of the {counted(len(chosen), 'case')} chosen"
    if not prints:
        return
    sizes, spacings = (_ranges([getattr(one, name) for one in prints]) for name in ("shape", "spacing"))
    yield "grid", f"{sizes} voxels of {spacings} mm"
    for text in stored_axes({one.key: one.axis_codes for one in prints}):
        yield "sides", text
    for number, name in enumerate(data.description.channels):
        own = [one.channels[number] for one in prints]
        low, high = min(one.minimum for one in own), max(one.maximum for one in own)
        inner = [np.median([getattr(one, f"{side}_percentile") for one in own]) for side in ("low", "high")]
        mean, sd = (float(np.median([getattr(one, field) for one in own])) for field in ("mean", "sd"))
        content = content_of(low, high, mean, sd)
        yield name, f"{low:.4g} to {high:.4g}, 99% from {inner[0]:.4g} to {inner[1]:.4g}: {content}"


def _ranges(rows: Sequence[Sequence[float]]) -> str:
    return " x ".join(
        f"{min(axis):g}" + (f" to {max(axis):g}" if max(axis) > min(axis) else "") for axis in zip(*rows, strict=True)
    )


def _label(name: str, description: Description, prints: Sequence[CaseFingerprint], named: str) -> FoundLabel:
    label = description.labels[name]
    having = [one for one in prints if label in one.voxels]
    ml = [one.voxels[label] * np.prod(one.spacing) / 1000 for one in having]
    return FoundLabel(
        name,
        description.stored.get(label, label),
        sum(one.voxels[label] for one in having),
        len(having),
        tuple(float(f(ml)) for f in (np.min, np.median, np.max)) if ml else (),
        tuple(map(float, np.median([one.middles[label] for one in having], axis=0))) if having else (),
        named,
    )


def _wrong_side(label: FoundLabel) -> str:
    """Returns the warning about a label on the other side than its name states, or ""."""
    if {label.side, label.named} != {LEFT, RIGHT}:
        return ""
    return (
        f"'{label.name}' lies on the {label.side} of the field of view, at {label.middle[0]:.2f} from left to right. "
        "Fix: check the orientation in the headers, or the names of the labels."
    )


def _case(case: Case, read: CaseFingerprint | None) -> dict[str, Any]:
    files = {"images": [str(path) for path in case.channels], "label": case.labels and str(case.labels)}
    facts = (
        {}
        if read is None
        else {name: value for name, value in dataclasses.asdict(read).items() if name not in ("files", "foreground")}
    )
    return {"key": case.key, **files, **facts}


def _files(kind: Any, path: Path) -> Inspection:
    """Inspects a data set whose images are single files, such as photos."""
    from mtf_imaging import data

    images = kind.training(getattr(data, kind.data_set)())
    try:
        description = images.description(path)
        survey = images.label_survey(path, description, False)
        keys = [*images.cases(path)]
    except DataError as error:
        return Inspection((), faults=(str(error),))
    rows = (("images", f"{len(keys)} to train on ({images.split or 'all'})"), ("read", survey.sample()))
    labels = tuple(FoundLabel(name, value, int(survey.counts[value])) for name, value in survey.names.items())
    return Inspection(rows, labels, warnings=tuple(survey.warnings()), cases=tuple({"key": key} for key in keys))


@contextlib.contextmanager
def _collected() -> Iterator[list[logging.LogRecord]]:
    """Collects the log records of the package instead of showing them."""
    logger, collector = package_logger(), RecordCollector()
    handlers, propagate = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [collector], False
    try:
        yield collector.records
    finally:
        logger.handlers, logger.propagate = handlers, propagate


def _grouped(texts: Iterable[str]) -> list[str]:
    """Returns one text for each group that differs only in the file and in numbers, with the number of the others."""
    groups = defaultdict(list)
    for text in texts:
        groups[re.sub(r"^[^:]*/[^:]*: |\d+(\.\d+)?", "", text)].append(text)
    return [first if not more else f"{first} (and {len(more)} like it)" for first, *more in groups.values()]
