"""Shows what was understood of a data set, before anything is computed."""

import contextlib
import dataclasses
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtf_imaging.data.cases.cases import DataSet, find_data_set
from mtf_imaging.data.cases.published import find_published
from mtf_imaging.data.class_frequencies import NUM_VALUES, evenly_spread
from mtf_imaging.data.description.dataset_json import FILE, find_description, write_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.listed_cases import DATASET
from mtf_imaging.data.fingerprint import WORKER_BYTES, CaseFingerprint, CaseReader, read_cases
from mtf_imaging.data.images.compact_labels import read_compact
from mtf_imaging.data.images.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.listing.image_formats import FORMATS
from mtf_imaging.data.listing.names import path_in
from mtf_imaging.data.modality import content_of, is_ct
from mtf_imaging.data.reading.open_sources import open_image_source, open_mask
from mtf_imaging.data.records.convert import stored_axes
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.provenance.text import Row, as_table
from mtf_imaging.files.workers import RecordCollector, default_workers, package_logger
from mtf_imaging.jobs.choices.sides import LEFT, RIGHT, sides_of
from mtf_imaging.kinds.all_kinds import KINDS, detect_kind
from mtf_imaging.kinds.facts import VOLUMES
from mtf_imaging.plain_text import counted, some, text_table
from mtf_imaging.settings.data import InspectSettings
from mtf_imaging.settings.setting import takes

if TYPE_CHECKING:
    from mtf_imaging.kinds.kind import Kind

Pictures = tuple[dict[str, np.ndarray], dict[str, str]]  # by key, and the color of each label

_OFF_MIDDLE = 0.05  # of the field of view; a label whose middle is nearer to the middle has no side
_PICTURES, _QUALITY = 4, 85  # cases with pictures, and the quality of JPEG
_FACTS = ("shape", "spacing", "axis_codes", "voxels")  # of a case that was read
# Of the values of a channel over the cases.
_ENDS: dict[str, Any] = {"minimum": min, "maximum": max, "low_percentile": np.median, "high_percentile": np.median}
_FEW, _ODD = 5, 3  # cases that show what is usual, and the distance from it in standard deviations
_HEAD = ("label", "value", "count", "cases", "mL: least", "median", "most", "x", "y", "z", "side", "named side")
_NOTE = "x, y, z: the middle of a label in the field of view, from 0 (left, back, feet) to 1 (right, front, head)."


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
      sides: {left or right: the cases in which it lies on this side of the field of view}.
      named: the side that its name states.
    """

    name: str
    value: int
    count: int
    cases: int | None = None
    ml: tuple[float, ...] = ()
    middle: tuple[float, ...] = ()
    sides: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    named: str = ""

    def cells(self) -> list[str]:
        """Returns the cells of its row in a table."""
        own = [self.name, str(self.value), f"{self.count:,}"]
        if self.cases is None:
            return own
        numbers = [*(f"{ml:.4g}" for ml in self.ml), *(f"{at:.2f}" for at in self.middle)] or ["-"] * 6
        sides = [side if len(keys) == self.cases else f"{side} {len(keys)}" for side, keys in self.sides.items()]
        return [*own, str(self.cases), *numbers, ", ".join(sides), self.named]


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What was understood of a data set.

    Attributes:
      rows: names and texts, the most important first.
      labels: the labels.
      faults: what cannot be used, with its fix.
      warnings: what was repaired, ignored or left out, and what looks wrong.
      cases: the files of each case and, if it was read, its size and labels.
    """

    rows: tuple[Row, ...] = ()
    labels: tuple[FoundLabel, ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cases: tuple[dict[str, Any], ...] = ()

    @property
    def all_rows(self) -> list[Row]:
        """The rows with the faults and warnings; similar texts about several files are one."""
        problems = {"UNUSABLE": self.faults, "WARNING": self.warnings}
        return [*self.rows, *((name, text) for name, texts in problems.items() for text in _grouped(texts))]

    @property
    def table(self) -> list[list[str]]:
        """The head and the rows of the table of labels; [] without labels."""
        rows = [label.cells() for label in self.labels]
        return [[*_HEAD[: len(rows[0])]], *rows] if rows else []

    def text(self) -> str:
        """Returns the inspection as plain text, with the faults before the labels."""
        note = [_NOTE] if self.labels and self.labels[0].middle else []
        return "\n".join([as_table(self.all_rows), "", *text_table(self.table), *note]).rstrip()


@takes(InspectSettings)
def inspect(own: InspectSettings) -> Inspection:
    """Shows what is understood of a data set: its layout, grids, sides, labels and intensities, and what looks wrong.

    Of volumes, the headers and voxels of a sample of cases are read.

    Returns:
      The inspection. Cases that cannot be used are among its faults.

    Raises:
      DataError: the path does not exist, `write` names a file that does, or `page` is not an HTML file.
    """
    path = Path(own.data_dir)
    if (
        own.page and (page := Path(own.page)).suffix != ".html"
    ):  # it may be an image by mistake, which must not be replaced
        raise DataError(f"{page}: the page is an HTML file. Fix: name it {page.stem}.html.", ["page"])
    kind = detect_kind(path) or KINDS[VOLUMES]
    data: DataSet | None = None
    faults: list[str] = []
    pictures: Pictures = ({}, {})
    with _collected() as records:
        if kind.name == VOLUMES:
            data = _find(path, faults)
            found = _volumes(path, data, own) if data else Inspection()
        else:
            found, pictures = _files(path, kind)
        texts = dict.fromkeys(record.getMessage() for record in records if record.levelno >= logging.WARNING)
        rows = (("data", f"{path}, {kind.title}"), *found.rows)
        faults, warnings = [*faults, *found.faults], [*texts, *found.warnings]
        found = dataclasses.replace(found, rows=rows, faults=tuple(faults), warnings=tuple(warnings))
        if own.page:
            write_bytes(own.page, _page(found, data, read_spacing_table(own.spacing_table), *pictures))
    return found


def _volumes(path: Path, data: DataSet, own: InspectSettings) -> Inspection:
    if own.write:
        _write(Path(own.write), data)
    chosen = evenly_spread(data.cases, own.num_cases)
    reader = CaseReader(path, data.description, read_spacing_table(own.spacing_table))
    results = read_cases(reader, chosen, own.workers or default_workers(WORKER_BYTES), own.progress)
    faults = tuple(str(result) for result in results.values() if isinstance(result, DataError))
    read = {key: result for key, result in results.items() if not isinstance(result, DataError)}
    names, labels, warnings = data.description.labels, [], []
    if any(case.labels and case.key in read for case in chosen):
        labels = _labels(data.description, [*read.values()])
        counts = np.zeros(NUM_VALUES, np.int64)
        counts[[*names.values()]] = [label.count for label in labels]
        survey = LabelSurvey(names, counts, (), len(read), len(data.cases), "voxel", "cases", FILE)
        warnings = [*survey.missing_warnings(), *_wrong_sides(labels), *_odd_values(data.description, [*read.values()])]
    rows = [row for row in data.rows() if not labels or row[0] != "labels"]
    files = (path for case in data.cases for path in (*case.channels, case.labels) if path)
    formats = Counter(next((one.name for one in FORMATS if one.stem(path) is not None), "folders") for path in files)
    rows.append(("files", ", ".join(f"{name} {number}" for name, number in formats.items())))
    failed = f"; {len(faults)} more could not be read" if faults else ""
    rows.append(("read", f"{len(read)} of {counted(len(data.cases), 'case')}{failed}"))
    rows += _facts(data.description, [*read.values()]) if read else ()
    facts = {key: {name: getattr(one, name) for name in _FACTS} for key, one in read.items()}
    paths = ({"images": [*map(str, case.channels)], "label": case.labels and str(case.labels)} for case in data.cases)
    cases = ({"key": case.key, **own, **facts.get(case.key, {})} for case, own in zip(data.cases, paths, strict=True))
    return Inspection(tuple(rows), tuple(labels), faults, tuple(warnings), tuple(cases))


def _find(path: Path, faults: list[str]) -> DataSet | None:
    """Returns the cases; None, or those without masks, too, if there is a fault."""
    try:
        if path.is_dir() and find_description(path)[0] is None and (published := find_published(path)):
            return published
        return find_data_set(path, need_labels=path.is_dir())
    except DataError as error:
        if not path.exists():
            raise
        faults.append(str(error))
    with contextlib.suppress(DataError):
        return find_data_set(path, need_labels=False)
    return None


def _write(file: Path, data: DataSet) -> None:
    """Writes a `dataset.json` that lists the cases with masks.

    Raises:
      DataError: the file has another name, or exists.
    """
    if file.name != FILE or file.exists():
        what = "exists" if file.exists() else f"must have the name {FILE}"
        raise DataError(f"{file}: this file {what}. Fix: name a new {FILE} as write.", ["write"])
    listed, folder = {}, file.absolute().parent
    for case in data.cases:
        if case.labels:
            images = [path_in(folder, image.absolute()) for image in case.channels]
            listed[case.key] = {"images": images, "label": path_in(folder, case.labels.absolute())}
    write_description(folder, data.description, len(listed), {DATASET: listed})


def _facts(description: Description, read: Sequence[CaseFingerprint]) -> Iterator[Row]:
    """Yields what the grids and values of the cases are."""
    sizes_of = ([getattr(one, name) for one in read] for name in ("shape", "spacing"))
    sizes, mm = (" x ".join(map(_range, zip(*rows, strict=True))) for rows in sizes_of)
    yield "grid", f"{sizes} voxels of {mm} mm"
    for text in stored_axes({one.key: one.axis_codes for one in read}):
        yield "sides", text
    for number, name in enumerate(description.channels):
        own = [one.channels[number] for one in read]
        low, high, first, last = (f([getattr(one, end) for one in own]) for end, f in _ENDS.items())
        text = f"{low:.4g} to {high:.4g}, 99% of the voxels {first:.4g} to {last:.4g}: {content_of(low, high)}"
        means = [one.foreground[number].mean for one in read if one.foreground]
        yield name, f"{text}; labels have means from {min(means):.4g} to {max(means):.4g}" if means else text


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _labels(description: Description, read: Sequence[CaseFingerprint]) -> list[FoundLabel]:
    labels, named = [], sides_of(description.labels)
    for name, label in description.labels.items():
        having = [one for one in read if label in one.voxels]
        ml = [one.voxels[label] * np.prod(one.spacing) / 1000 for one in having]
        facts = (
            tuple(map(float, np.percentile(ml, (0, 50, 100)))) if ml else (),
            tuple(map(float, np.median([one.middles[label] for one in having], axis=0))) if ml else (),
        )
        sides: dict[str, list[str]] = {}
        for one in having:
            off = one.middles[label][0] - 0.5
            if abs(off) >= _OFF_MIDDLE:
                sides.setdefault(RIGHT if off > 0 else LEFT, []).append(one.key)
        count = sum(one.voxels[label] for one in having)
        stored = description.stored.get(label, label)
        labels.append(FoundLabel(name, stored, count, len(having), *facts, sides, named.get(name, "")))
    return labels


def _wrong_sides(labels: Iterable[FoundLabel]) -> Iterator[str]:
    """Yields warnings about labels on the other side than their names state."""
    for label in labels:
        for side, keys in label.sides.items():
            if label.named and side != label.named:
                what = f"lies on the {side} of the field of view in {len(keys)} of {label.cases} cases: {some(keys)}"
                yield f"'{label.name}' {what}. Fix: check the orientation in the headers, or the names of the labels."


def _odd_values(description: Description, read: Iterable[CaseFingerprint]) -> Iterator[str]:
    """Yields a warning about cases whose labels lie on other HU than those of most cases."""
    labeled = [one for one in read if one.foreground]
    for number, name in enumerate(description.channels):
        if not is_ct(name) or len(labeled) < _FEW:
            continue
        values = np.array([(one.foreground[number].mean, one.foreground[number].sd) for one in labeled])
        usual = np.median(values, axis=0)
        off = np.abs(values - usual)
        is_odd = (off > _ODD * np.maximum(np.median(off, axis=0), usual[1])).any(axis=1)
        odd = [f"{labeled[at].key} ({values[at, 0]:.4g}, {values[at, 1]:.4g})" for at in np.flatnonzero(is_odd)]
        if odd:
            what = f"labeled voxels have the mean {usual[0]:.4g} HU and the sd {usual[1]:.4g} in most cases, unlike in"
            yield f"{what} {some(odd)}. Fix: check on the page that their labels belong to their images."


def _page(
    found: Inspection, data: DataSet | None, known: SpacingTable, images: dict[str, np.ndarray], colors: dict[str, str]
) -> bytes:
    """Returns the page, with labeled images, or with pictures of the first labeled cases that were read."""
    from PIL import Image

    from mtf_imaging.evaluation.report.colors import mask_colors, mask_style
    from mtf_imaging.evaluation.volume_report.data_page import case_pictures, data_page, labeled_picture
    from mtf_imaging.kinds.output import jpeg

    pictures = [labeled_picture(key, jpeg(Image.fromarray(image), _QUALITY)) for key, image in images.items()]
    read = {case["key"] for case in found.cases if "shape" in case}
    description = data.description if data else LITS
    labeled = [(case, case.labels) for case in (data.cases if data else ()) if case.labels and case.key in read]
    for case, mask in labeled[:_PICTURES]:
        with contextlib.closing(open_image_source(case.channels, description, known)) as image:
            pictures += [case_pictures(case.key, image, read_compact(open_mask(mask, image, description)), description)]
    return data_page(found.all_rows, found.table, pictures, colors or mask_colors(description), mask_style(description))


def _files(path: Path, kind: "Kind") -> tuple[Inspection, Pictures]:
    """Inspects a data set whose images are single files, such as photos; also returns its pictures and their colors."""
    from mtf_imaging import data

    images = kind.training(getattr(data, kind.data_set)())
    try:
        survey = images.label_survey(path, images.description(path), False)
        keys = [*images.cases(path)]
    except DataError as error:
        return Inspection(faults=(str(error),)), ({}, {})
    assert survey is not None, "these kinds name labels"
    pictures: Pictures = ({}, {})
    faults: list[str] = []
    try:
        pictures = images.pictures(path, images.description(path), _PICTURES)
    except DataError as error:
        faults = [str(error)]
    rows = (("images", f"{len(keys)} to train on ({images.split or 'all'})"), ("read", survey.summary()))
    labels = tuple(FoundLabel(name, value, int(survey.counts[value])) for name, value in survey.names.items())
    cases = tuple({"key": key} for key in keys)
    return Inspection(rows, labels, tuple(faults), tuple(survey.warnings()), cases), pictures


@contextlib.contextmanager
def _collected() -> Iterator[list[logging.LogRecord]]:
    """Collects the log records of the package instead of showing them."""
    logger, collector = package_logger(), RecordCollector()
    handlers, propagate = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [collector], False
    warn_once.cache_clear()  # other jobs in this process show the same warnings
    try:
        yield collector.records
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        warn_once.cache_clear()


def _grouped(texts: Iterable[str]) -> list[str]:
    """Returns one text for each group that differs only in the file and in numbers, with the number of the others."""
    groups = defaultdict(list)
    for text in texts:
        groups[re.sub(r"^[^:]*/[^:]*: |\d+(\.\d+)?", "", text)].append(text)
    return [f"{first} (and {len(more)} like it)" if more else first for first, *more in groups.values()]
