"""Scoring of held-out records during training."""

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.data.description.differences import differences, refuse_differences
from mtf_imaging.data.images.geometry import Geometry, MadeGeometry
from mtf_imaging.data.intensities.schemes import apply_intensities
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.intensities import resolve_intensities
from mtf_imaging.data.records.manifest import Manifest, open_records
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.buckets import group_by_grid
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.evaluation.volume_report.case_picture import picture_pixels
from mtf_imaging.evaluation.volume_scores.overlap import Overlap, dice_text, label_overlaps, mean
from mtf_imaging.evaluation.volume_scores.summary import dice_per_case
from mtf_imaging.evaluation.volume_scores.voxels import VoxelView
from mtf_imaging.inference.network import as_network
from mtf_imaging.kinds.batches import Steps, score_held_out
from mtf_imaging.kinds.volumes.segment.labels import Labeling, SlicedLabels
from mtf_imaging.kinds.volumes.segment.segmenter import PredictProbabilities

MEAN = "mean"  # the name of the mean Dice over all masks


@dataclass(frozen=True)
class HeldOutRecords:
    """Mean Dice of each mask over the records in a folder, for `mtf_imaging.training.evaluation`.

    Scores are computed on the grid of the records. `mtf_imaging.kinds.volumes.evaluate` applies the same rules at the
    original resolution of the cases.

    Attributes:
      records: the data set, as in training but without augmentation. Its spacing is the one that the records must
        have. With patches, batches for the held-out loss contain one patch per case.
      progress: whether to show a progress bar.
      description: the channels and labels of the training data. Records with other channels or labels are refused.
    """

    records: Records = field(default_factory=Records)
    progress: bool = True
    description: Description = LITS

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the masks; for data other than LiTS, also the mean."""
        return (*self.description.masks, *([] if self.description.rules == LITS_RULES else [MEAN]))

    def open(self, eval_dir: str | Path, sizes: Grid | None) -> Callable:
        """Opens the records and returns a function that scores a network on them.

        Args:
          eval_dir: folder of the held-out records.
          sizes: voxels of the records along x, y and z; None for records with any grids.

        Returns:
          A function of the network that returns the mean Dice by mask and a picture of the first case.

        Raises:
          DataError: the folder has no finished records of this sampling, or their channels or labels differ from the
              training.
        """
        manifest = self._open(eval_dir, sizes)
        found = differences(manifest.description, self.description)
        fix = (
            "hold out cases of the same data set, or map their labels to those of the training and convert them again."
        )
        refuse_differences(f"{eval_dir}: has", found, "the network is trained with", fix, ["eval_dir"])

        def score(predict: PredictProbabilities) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            pictures: dict[str, np.ndarray] = {}

            def infer(cases: Sequence[HeldOutCase], records: Sequence[StoredRecord]) -> list[SlicedLabels]:
                return [self._labels(record, manifest, predict) for record in records]

            def compare(number: int, record: StoredRecord, labels: SlicedLabels) -> dict[str, Overlap] | None:
                overlaps, is_scored = self._overlaps(labels, record)
                if number == 0:
                    pictures.update(_picture(record, labels, overlaps, self.description))
                return overlaps if is_scored else None

            cases = [HeldOutCase(key, Path(eval_dir)) for key in manifest.cases]
            steps = Steps(lambda case: case.folder, lambda case: manifest.open_record(eval_dir, case.key), infer)
            # Of the cases with a voxel that counts.
            overlaps = score_held_out(steps, cases, compare, "case", self.progress)
            dice = {name: dice_per_case(overlaps, name) if overlaps else math.nan for name in self.description.masks}
            return {name: dice[name] if name in dice else mean(dice.values()) for name in self.measures}, pictures

        return score

    def loss_batches(self, eval_dir: str | Path, *, batch_size: int, sizes: Grid | None) -> Iterator[dict]:
        """Returns an iterator over all cases in batches, ordered by key; the first cases fill up the last batch.

        Records with several grids are ordered by grid, and each grid has its own last batch.
        """
        manifest = self._open(eval_dir, sizes)
        for at in self._group(manifest).values():
            batches = self._batches(eval_dir, manifest, at, batch_size)
            yield from itertools.islice(batches, math.ceil(len(at) / batch_size))

    def loss_region_batches(
        self,
        eval_dir: str | Path,
        *,
        batch_size: int,
        sizes: Grid | None,
        micro_batches: int,
        regions: Callable[[Grid], Mapping[str, TensorRegion]],
    ) -> Iterator[dict]:
        """Returns an iterator over the batches of `loss_batches`, limited to the regions of this process.

        Args:
          eval_dir, batch_size, sizes: the same as in `loss_batches`.
          micro_batches: number of equal pieces of a batch, which are yielded one after the other.
          regions: maps the grid of records to the region of each input of a micro-batch.
        """
        manifest = self._open(eval_dir, sizes)
        for grid, at in self._group(manifest).items():
            own = {grid: regions(grid)}
            batches = self._batches(eval_dir, manifest, at, batch_size // micro_batches, regions=own)
            for batch in itertools.islice(batches, math.ceil(len(at) / batch_size) * micro_batches):
                yield {**batch, "sizes": grid}

    def _group(self, manifest: Manifest) -> dict[Grid, list[int]]:
        """Returns the indices of the cases by sample size, the size of the records or of their patches."""
        if self.records.patches:
            return {self.records.patches.sizes: [*range(len(manifest.cases))]}
        return group_by_grid(manifest.grids)

    def _batches(
        self, eval_dir: str | Path, manifest: Manifest, at: list[int], batch_size: int, **regions
    ) -> Iterator[dict]:
        """Returns endless batches of some cases."""
        cases = Subset(os.fspath(eval_dir), tuple(manifest.cases[number] for number in at))
        return self.records.training_batches(cases, batch_size, seed=0, shuffle=False, **regions)

    def _open(self, eval_dir: str | Path, sizes: Grid | None) -> Manifest:
        return open_records(eval_dir, None if sizes is None else tuple(sizes), self.records.spacing)

    def _labels(self, record: StoredRecord, manifest: Manifest, predict: PredictProbabilities) -> SlicedLabels:
        """Returns the predicted labels of a record."""
        slices = as_network(predict, record.num_channels, self.description.num_outputs).slices(record.grid)
        *region, channels = slices.inputs[slices.group.index]
        image = self._network_input(record, tuple(region), manifest)
        labeling = Labeling(slices, _geometry(record), Sampling(record.grid), record.path, self.description)
        slices.predict_parts(image[..., channels], labeling.add)
        return labeling.finish()

    def _network_input(self, record: StoredRecord, region: Region, manifest: Manifest) -> np.ndarray:
        """Returns a region of a record's image as in training, float32 `[x, y, z, channels]`."""
        image = record.image(region)
        schemes = resolve_intensities(manifest, self.records.window, self.records.intensities)
        return apply_intensities(image[..., np.newaxis] if record.has_hu else image, schemes, record.facts.statistics)

    def _overlaps(self, labels: SlicedLabels, record: StoredRecord) -> tuple[dict[str, Overlap], bool]:
        """Returns the overlaps over all processes, each of which reads the reference in its own region.

        Returns:
          The overlaps, and whether any voxel has a label other than the ignore label.
        """
        counts, scored = [0] * (3 * len(self.description.masks)), False
        if labels.is_counted:
            reference = record.labels(labels.region)
            own = label_overlaps(labels.own, reference, self.description).values()
            counts = [count for overlap in own for count in dataclasses.astuple(overlap)]
            scored = self.description.ignore is None or bool((reference != self.description.ignore).any())
        sums = labels.group.gather_numbers([*counts, int(scored)]).sum(axis=0, dtype=np.int64)
        rows = zip(self.description.masks, sums[:-1].reshape(-1, 3), strict=True)
        return {name: Overlap(*map(int, row)) for name, row in rows}, bool(sums[-1])


def _picture(
    record: StoredRecord, labels: SlicedLabels, overlaps: dict[str, Overlap], description: Description
) -> dict[str, np.ndarray]:
    """Returns {title: picture} for a case in process 0; an empty dict in other processes."""
    if not labels.group.is_first:
        labels.send(_RecordChannel.order)
        return {}
    prediction = labels.compact(_RecordChannel.order)
    facts = record.facts
    spans = record.sampling.spans(facts.shape, facts.spacing)
    spacing = [mm * span.step for mm, span in zip(facts.spacing, spans, strict=True)]
    title = f"case {facts.key}: Dice {dice_text(overlaps)}"
    reference = VoxelView(record.grid, record.labels)
    pixels = picture_pixels(_RecordChannel(record), reference, prediction, spacing, title, description)
    return {f"case {facts.key}": pixels}


class HeldOutCase(NamedTuple):
    """A held-out case.

    Attributes:
      key: the key of the case.
      folder: the folder of the records.
    """

    key: str
    folder: Path


def _geometry(record: StoredRecord) -> Geometry:
    """Returns a geometry whose voxels are those of a record."""
    return MadeGeometry.of(record.grid, np.eye(4))


class _RecordChannel:
    """The first channel of a record, with the parts of `VoxelSource` that `read_planes` needs."""

    order = ALONG_Z

    def __init__(self, record: StoredRecord) -> None:
        self._record = record
        self.geometry, self.dtype = _geometry(record), np.dtype(np.int16 if record.has_hu else np.float32)

    def read(self, region: Region) -> np.ndarray:
        image = self._record.image(region)
        return image if self._record.has_hu else image[..., 0]

    def check(self) -> None:
        """Does nothing: records are checked when they are read."""
