"""The fingerprint of a data set: sizes, spacings, intensities and label frequencies of its cases."""

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.cases import Case, find_data_set
from mtf_imaging.data.class_frequencies import NUM_VALUES
from mtf_imaging.data.description.description import BACKGROUND, Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.description.file_labels import listed
from mtf_imaging.data.images.compact_labels import CompactLabels, read_compact
from mtf_imaging.data.images.nonzero import ends, mark_nonzero
from mtf_imaging.data.images.sources import VoxelSource, read_slabs
from mtf_imaging.data.images.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.data.intensities.statistics import PERCENTAGES, ChannelStatistics, Distribution, collect
from mtf_imaging.data.listing.image_files import files_of_image
from mtf_imaging.data.listing.names import path_in, printable
from mtf_imaging.data.reading.open_sources import open_image_source, open_mask
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.regions import PlaneOrder
from mtf_imaging.data.sampling.sampling import Spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.case_errors import CaseFaults, case_errors
from mtf_imaging.files.json_file import read_json
from mtf_imaging.files.reading import access_named
from mtf_imaging.files.workers import in_parallel

FILE = "fingerprint.json"
WORKER_BYTES = 1 << 29  # 0.3 GiB were measured for an OME-Zarr case of 1024^3 voxels
# Dense near the ends, so that the percentiles over all cases can be computed from each case's.
FOREGROUND_PERCENTAGES = (0, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 100)
_FORMAT = 4
_SLAB_VOXELS = 1 << 22  # labels to count at a time

Box = tuple[tuple[int, int], ...]  # the first plane and the one after the last, along x, y and z


@dataclass(frozen=True)
class Foreground:
    """The distribution of one channel in the labeled voxels of one case.

    Attributes:
      mean, sd: mean and standard deviation.
      percentiles: the percentiles at `FOREGROUND_PERCENTAGES`.
    """

    mean: float
    sd: float
    percentiles: tuple[float, ...]


@dataclass(frozen=True)
class CaseFingerprint:
    """The facts about one case that a plan needs.

    Attributes:
      key: the case name.
      shape: number of voxels along x, y, z in canonical axes.
      spacing: voxel size in mm along x, y, z.
      axis_codes: direction of each stored axis, for example `LPS`.
      voxels: {label: number of voxels} of all labels in the case, with the background and the ignore label.
      middles: {label: mean position of its voxels along x, y, z}, from 0, the left, back and lower end of the field of
        view, to 1.
      labeled: the first plane with labeled voxels and the one after the last, along x, y and z; 0 without any.
      nonzero: the same for voxels that are not 0 in some channel; the whole image without any.
      channels: the distribution of each channel.
      foreground: the values of each channel in the labeled voxels; empty without such voxels.
      files: {path in the folder: (bytes, modification time in ns)} of the images and the mask.
    """

    key: str
    shape: Grid
    spacing: Spacing
    axis_codes: str
    voxels: dict[int, int]
    middles: dict[int, tuple[float, float, float]]
    labeled: Box
    nonzero: Box
    channels: tuple[ChannelStatistics, ...]
    foreground: tuple[Foreground, ...]
    files: dict[str, tuple[int, int]]

    @property
    def extent_mm(self) -> tuple[float, float, float]:
        """The field of view in mm along x, y and z."""
        return tuple(n * mm for n, mm in zip(self.shape, self.spacing, strict=True))

    @property
    def labeled_mm(self) -> tuple[float, float, float]:
        """The width in mm, along x, y and z, of the smallest box in the center of the field of view that contains all
        labeled voxels; 0 without such voxels.
        """
        widths = (2 * max(n / 2 - a, b - n / 2) if a < b else 0.0 for n, (a, b) in zip(self.shape, self.labeled))
        return tuple(n * mm for n, mm in zip(widths, self.spacing, strict=True))

    @property
    def cropped(self) -> "CaseFingerprint":
        """The case, cropped to its nonzero voxels."""
        labeled = (
            (max(a, start) - start, min(b, stop) - start) for (a, b), (start, stop) in zip(self.labeled, self.nonzero)
        )
        shape = tuple(stop - start for start, stop in self.nonzero)
        first = [start for start, _ in self.nonzero]
        middles = {
            label: tuple((part * n - start) / m for part, n, start, m in zip(middle, self.shape, first, shape))
            for label, middle in self.middles.items()
        }
        nonzero = tuple((0, n) for n in shape)
        return dataclasses.replace(self, shape=shape, middles=middles, labeled=tuple(labeled), nonzero=nonzero)


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprints of all cases in a data set.

    Attributes:
      description: the channels, labels and masks.
      cases: the cases, in natural order.
    """

    description: Description
    cases: tuple[CaseFingerprint, ...]

    @property
    def median_spacing(self) -> Spacing:
        """The median voxel size in mm along each axis."""
        return tuple(float(mm) for mm in np.median([case.spacing for case in self.cases], axis=0))

    @property
    def median_shape(self) -> tuple[float, ...]:
        """The median number of voxels along each axis."""
        return tuple(float(size) for size in np.median([case.shape for case in self.cases], axis=0))

    @property
    def nonzero_share(self) -> float:
        """The share of a volume in the box of its nonzero voxels, in the median case."""
        return float(np.median([math.prod(case.cropped.shape) / math.prod(case.shape) for case in self.cases]))

    @property
    def cropped(self) -> "Fingerprint":
        """The cases, cropped to their nonzero voxels."""
        return dataclasses.replace(self, cases=tuple(case.cropped for case in self.cases))

    def foreground_percentiles(self, channel: int) -> tuple[float, float]:
        """Returns percentiles 0.5 and 99.5 of one channel in the labeled voxels of all cases.

        Each case has the same weight, as in nnU-Net, which draws the same number of voxels from each. The percentiles
        are interpolated from the cases' percentiles.

        Args:
          channel: index of the channel.
        """
        rows = [case.foreground[channel].percentiles for case in self.cases if case.foreground]
        values = np.unique(rows)
        below = np.mean([np.interp(values, row, FOREGROUND_PERCENTAGES) for row in rows], axis=0)
        low, high = np.interp(PERCENTAGES, below, values)
        return float(low), float(high)

    def frequency(self, label: int) -> float:
        """Returns the fraction of voxels that have a label; voxels with the ignore label are excluded."""
        ignore = self.description.ignore
        total = sum(number for case in self.cases for value, number in case.voxels.items() if value != ignore)
        return sum(case.voxels.get(label, 0) for case in self.cases) / total if total else 0.0

    def prevalence(self, label: int) -> float:
        """Returns the fraction of the cases that have a voxel with a label."""
        return sum(case.voxels.get(label, 0) > 0 for case in self.cases) / len(self.cases)


def read_fingerprint(
    input_dir: str | Path,
    file: str | Path | None = None,
    spacing_csv: str | Path | SpacingTable | None = None,
    workers: int = 1,
    progress: bool = True,
) -> Fingerprint:
    """Reads the fingerprint of a folder of labeled cases.

    Args:
      input_dir: the folder; see `find_cases`.
      file: a JSON file that stores the fingerprint. Cases whose files have the same size and modification time as when
        it was written are not read again. None to store nothing.
      spacing_csv: a CSV in the format of `read_spacing_table`, with the voxel sizes of files whose headers lack them.
      workers: number of processes, each of which takes about 0.3 GiB.
      progress: whether to show a progress bar.

    Raises:
      DataError: a case cannot be used; all such cases are reported together. No case has a labeled voxel. Or `file`
        exists and is not a fingerprint.
    """
    known = read_spacing_table(spacing_csv)
    description, cases, _ = find_data_set(input_dir)
    stamps = {case.key: _stamp(case, Path(input_dir)) for case in cases}
    stored = {} if file is None else _stored(Path(file), description, known)
    kept = {key: case for key, case in stored.items() if stamps.get(key) == case.files}
    missing = [case for case in cases if case.key not in kept]
    read = read_cases(CaseReader(Path(input_dir), description, known), missing, workers, progress)
    CaseFaults(faults={key: one for key, one in read.items() if isinstance(one, DataError)}).check(read)
    fingerprint = Fingerprint(description, tuple(kept.get(case.key) or read[case.key] for case in cases))
    if not any(case.foreground for case in fingerprint.cases):
        what = f"none of the {len(cases)} cases has a labeled voxel"
        raise DataError(f"{input_dir}: {what}. Fix: give masks with the labels {listed(description)}.")
    if file is not None and (missing or len(stored) != len(cases)):
        write_bytes(file, (json.dumps(_as_json(fingerprint, known), indent=1) + "\n").encode())
    return fingerprint


def _stamp(case: Case, folder: Path) -> dict[str, tuple[int, int]]:
    stamp = {}
    for path in (file for image in (*case.channels, case.labels) if image for file in files_of_image(image)):
        with access_named(path):
            status = path.stat()
        stamp[printable(path_in(folder, path))] = (status.st_size, status.st_mtime_ns)
    return stamp


@dataclass(frozen=True)
class CaseReader:
    """Reads cases, in any process."""

    folder: Path
    description: Description
    known: SpacingTable

    def __call__(self, case: Case) -> CaseFingerprint | DataError:
        """Returns the fingerprint of a case, or the error, so that the other cases are still read."""
        try:
            with case_errors(case.volume):
                return self._read(case)
        except DataError as error:
            return DataError(str(error), error.settings)  # without its traceback, which would keep the arrays

    def _read(self, case: Case) -> CaseFingerprint:
        stamp = _stamp(case, self.folder)
        with contextlib.closing(open_image_source(case.channels, self.description, self.known)) as image:
            geometry = image.geometry
            labels = CompactLabels(geometry.shape)
            if case.labels is not None:
                labels = read_compact(open_mask(case.labels, image, self.description))
            counts = _counts(labels, image.order)
            present = np.flatnonzero(counts[0].sum(axis=0)).tolist()
            own = [value for value in present if value not in (BACKGROUND, self.description.ignore)]
            nonzero = [np.zeros(n, bool) for n in geometry.shape]
            channels = [_read_channel(source, labels, own, nonzero) for source in image.channels]
        return CaseFingerprint(
            key=case.key,
            shape=tuple(map(int, geometry.shape)),
            spacing=tuple(map(float, geometry.spacing)),
            axis_codes=geometry.axis_codes,
            voxels={value: int(counts[0][:, value].sum()) for value in present},
            middles={value: tuple(_middle(table[:, value]) for table in counts) for value in present},
            labeled=tuple(ends(table[:, own].any(axis=1)) for table in counts),
            nonzero=tuple(ends(planes) if planes.any() else (0, len(planes)) for planes in nonzero),
            channels=tuple(everywhere for everywhere, _ in channels),
            foreground=tuple(labeled for _, labeled in channels if labeled),
            files=stamp,
        )


def _counts(labels: CompactLabels, order: PlaneOrder) -> list[np.ndarray]:
    """Returns the number of voxels of each label in each plane perpendicular to an axis, int64 `[planes, 256]` each."""
    counts = [np.zeros((n, NUM_VALUES), np.int64) for n in labels.shape]
    for region in order.slabs(labels.shape, _SLAB_VOXELS):
        slab = labels[region]
        for axis, (table, at) in enumerate(zip(counts, region, strict=True)):
            table[at] += [np.bincount(plane.ravel(), minlength=NUM_VALUES) for plane in np.moveaxis(slab, axis, 0)]
    return counts


def _middle(counts: np.ndarray) -> float:
    """Returns the mean position of voxels, in parts of the planes, from their number in each plane."""
    return float(counts @ (np.arange(len(counts)) + 0.5) / counts.sum() / len(counts))


def _read_channel(
    source: VoxelSource, labels: CompactLabels, own: Sequence[int], nonzero: Sequence[np.ndarray]
) -> tuple[ChannelStatistics, Foreground | None]:
    """Reads a channel once, or twice if its values are neither HU nor small integers.

    Args:
      source: the channel.
      labels: the labels of the case.
      own: the labels of the labeled voxels.
      nonzero: the planes along each axis; those with a value that is not 0 are marked.

    Returns:
      The distribution of all voxels, and that of the labeled voxels; None without any.
    """
    everywhere, labeled = Distribution(), Distribution(FOREGROUND_PERCENTAGES)
    is_own = np.isin(np.arange(NUM_VALUES), own)

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for region, values in read_slabs(source):
            mark_nonzero(nonzero, region, values)
            yield values, values[is_own[labels[region]]]

    collect(parts, everywhere, labeled)
    source.check()
    if not own:
        return everywhere.statistics(), None
    part = labeled.statistics()
    return everywhere.statistics(), Foreground(part.mean, part.sd, labeled.percentiles(FOREGROUND_PERCENTAGES))


def read_cases(
    reader: CaseReader, cases: Sequence[Case], workers: int, progress: bool
) -> dict[str, CaseFingerprint | DataError]:
    """Returns the fingerprint or the error of each case by its key, in the order of the cases."""
    results: dict[str, Any] = dict.fromkeys(case.key for case in cases)
    shown = progress and bool(cases)
    with tqdm(total=len(cases), desc="fingerprint", unit="case", disable=not shown, dynamic_ncols=True) as bar:
        for case, result in in_parallel(reader, cases, workers):
            results[case.key] = result
            bar.update()
    return results


def _as_json(fingerprint: Fingerprint, known: SpacingTable) -> dict[str, Any]:
    cases = [dataclasses.asdict(case) for case in fingerprint.cases]
    description = as_fields(fingerprint.description)
    return {"format": _FORMAT, "description": description, "spacing_table": _table(known), "cases": cases}


def _table(known: SpacingTable) -> dict[str, list[float]]:
    return {name: list(spacing) for name, spacing in known.sizes.items()}


def _stored(file: Path, description: Description, known: SpacingTable) -> dict[str, CaseFingerprint]:
    """Returns the cases of an earlier fingerprint with the same description, by key; empty if there is none.

    Raises:
      DataError: the file is not a fingerprint.
    """
    with access_named(file):
        if not file.exists():
            return {}
    fields = read_json(file, "remove this file, or choose another folder for the plan")
    try:
        if fields["format"] != _FORMAT or fields["spacing_table"] != _table(known):
            return {}
        if from_fields(fields["description"], str(file)) != description:
            return {}
        cases = [_case(case) for case in fields["cases"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"not a fingerprint that this program wrote ({type(error).__name__}: {error})"
        raise DataError(f"{file}: {what}. Fix: remove this file, or choose another folder for the plan.") from error
    return {case.key: case for case in cases}


def _case(fields: dict[str, Any]) -> CaseFingerprint:
    return CaseFingerprint(
        **fields
        | {name: tuple(fields[name]) for name in ("shape", "spacing")}
        | {name: tuple(map(tuple, fields[name])) for name in ("labeled", "nonzero")}
        | {
            "voxels": {int(label): number for label, number in fields["voxels"].items()},
            "middles": {int(label): tuple(middle) for label, middle in fields["middles"].items()},
            "channels": tuple(ChannelStatistics(**channel) for channel in fields["channels"]),
            "foreground": tuple(
                Foreground(**channel | {"percentiles": tuple(channel["percentiles"])})
                for channel in fields["foreground"]
            ),
            "files": {name: tuple(stamp) for name, stamp in fields["files"].items()},
        }
    )
