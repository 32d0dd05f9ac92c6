"""Patches of records, whose positions depend only on the seed and the sample number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.records.manifest import Manifest
from mtf_imaging.data.records.region_reader import RegionReader
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.patch_sizes import check_patch
from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import check_value
from mtf_imaging.spelling import did_you_mean

_DRAWS = 7  # 4 to decide whether and on which labeled voxel a patch is centered, and 3 for its position otherwise


@dataclass(frozen=True)
class Patches:
    """Patches at random positions in records.

    Attributes:
      sizes: voxels of a patch along x, y and z.
      centered: the share of patches that are centered on a labeled voxel. As in nnU-Net (Isensee et al. 2021), these
        are the last samples of each batch, all but `round(batch_size (1 - centered))`. If this would center none, for
        instance in batches of one, each sample is centered with this probability instead. The label is drawn from the
        labels of the case, and the voxel from the voxels with that label. A patch never extends beyond the record, so
        it is moved inward at a border. In a case without labels, patches lie anywhere.
      labels: {label: weight}, the frequency with which each label is drawn, relative to the others; None for all labels
        alike.
    """

    sizes: Grid
    centered: float = 1 / 3
    labels: Mapping[str, float] | None = None
    batch_size: int = 1

    def __post_init__(self) -> None:
        check_value("centered_patches", self.centered, float, ["centered_patches"], least=0, most=1)
        weights = {} if self.labels is None else self.labels
        wrong = next((weight for weight in weights.values() if not 0 <= weight < math.inf), None)
        if wrong is not None or (self.labels is not None and not any(weights.values())):
            what = "no label has a positive weight" if wrong is None else f"{wrong!r} is no weight"
            what = f"centered_labels = {self.labels!r}: {what}"
            fix = "give each label a weight of at least 0, as in {'lesion': 2, 'liver': 1}"
            raise ConfigError(f"{what}. Fix: {fix}.", ["centered_labels"])

    @property
    def chances(self) -> tuple[float, ...]:
        """The probability that a sample is centered on a labeled voxel, for each position in a batch."""
        anywhere = round(self.batch_size * (1 - self.centered))
        if self.batch_size == 1 or anywhere == self.batch_size:
            return (float(self.centered),) * self.batch_size
        return (0.0,) * anywhere + (1.0,) * (self.batch_size - anywhere)

    def check(self, manifest: Manifest, data_dir: object) -> None:
        """Checks that patches of this size fit into the records, and that the labels exist.

        Raises:
          ConfigError: a record is smaller than a patch, or a label does not exist in the records.
        """
        for key, grid in zip(manifest.cases, manifest.grids, strict=True):
            check_patch(self.sizes, grid, f"the record of case {key} in {data_dir}, which has a grid")
        for name in self.labels or ():
            if name not in manifest.description.labels:
                hint = did_you_mean(name, [*manifest.description.labels])
                labels = f"the labels of {data_dir} are {', '.join(manifest.description.labels)}"
                what = f"centered_labels names '{name}', but {labels}.{hint} Fix: name one of these."
                raise ConfigError(what, ["centered_labels"])

    def weights(self, labels: Mapping[str, int]) -> dict[int, float]:
        """Returns {value: weight} of the labels to draw.

        Args:
          labels: {name: value}.
        """
        weights = dict.fromkeys(labels, 1.0) if self.labels is None else self.labels
        return {labels[name]: float(weight) for name, weight in weights.items() if weight}


class PatchCorners:
    """Draws the first voxel of each patch in a run.

    Args:
      patches: the patches.
      reader: the reader of the records.
      manifest: the records.
      seed: the run's seed.
    """

    def __init__(self, patches: Patches, reader: RegionReader, manifest: Manifest, seed: int) -> None:
        self._patches, self._reader, self._seed = patches, reader, seed
        self._weights = patches.weights(manifest.description.labels)
        self._grids = manifest.grids
        self._blocks: dict[int, LabelBlocks] = {}

    def __call__(self, sample: tf.Tensor, case: tf.Tensor) -> tf.Tensor:
        """Returns Tensor[3] int64, the first voxel of the patch along x, y and z.

        Args:
          sample: Tensor[] int64, the sample number, counted from the start of the run.
          case: Tensor[] int64, the number of its case.
        """
        # In double precision, so that every voxel of a large image can be drawn.
        draws = tf.random.stateless_uniform([_DRAWS], Draws(self._seed, sample).seed("patch"), dtype=tf.float64)
        chances = tf.constant(self._patches.chances, tf.float64)
        chance = chances[sample % self._patches.batch_size]
        corner = tf.numpy_function(self._reader.guarded(self._corner), [case, draws, chance], tf.int64)
        return tf.ensure_shape(corner, [3])

    def _corner(self, case: np.int64, draws: np.ndarray, chance: np.float64) -> np.ndarray:
        """Returns the corner of a patch, given draws from [0, 1) and the probability that it is centered."""
        free = np.array(self._grids[case]) - self._patches.sizes
        if draws[0] < chance:
            center = self._center(int(case), draws[1:4])
            if center is not None:
                return np.clip(center - np.array(self._patches.sizes) // 2, 0, free).astype(np.int64)
        return np.floor(draws[4:] * (free + 1)).astype(np.int64)

    def _center(self, case: int, draws: np.ndarray) -> np.ndarray | None:
        """Returns a random voxel of a random label; None if the case has no label to draw."""
        record = self._reader.record(case)
        if case not in self._blocks:
            self._blocks[case] = LabelBlocks.count(record, [*self._weights])
        blocks = self._blocks[case]
        has_label = blocks.counts.any(axis=0)
        weights = np.array([*self._weights.values()]) * has_label
        if not weights.any():
            return None
        column = _choose(weights, draws[0])
        block = blocks.regions[_choose(blocks.counts[:, column], draws[1])]
        inside = np.flatnonzero(record.labels(block) == blocks.labels[column])
        shape = tuple(at.stop - at.start for at in block)
        voxel = np.unravel_index(inside[int(draws[2] * len(inside))], shape)
        return np.array([int(at) + along.start for at, along in zip(voxel, block, strict=True)])


@dataclass(frozen=True)
class LabelBlocks:
    """The number of voxels per label in each chunk of a record, which avoids reading the whole record to draw voxels.

    Attributes:
      labels: the values of the labels.
      regions: the regions of the chunks.
      counts: int64 `[regions, labels]`.
    """

    labels: Sequence[int]
    regions: Sequence[Region]
    counts: np.ndarray

    @classmethod
    def count(cls, record: StoredRecord, labels: Sequence[int]) -> "LabelBlocks":
        """Counts the labels of a record, reading one chunk after the other."""
        regions, counts = [], []
        for region in _blocks_of(record.grid, record.chunk):
            present = np.bincount(record.labels(region).ravel(), minlength=256)[list(labels)]
            if present.any():
                regions.append(region)
                counts.append(present)
        return cls(labels, regions, np.array(counts, np.int64).reshape(len(regions), len(labels)))


def _blocks_of(grid: Grid, block: Grid) -> list[Region]:
    along = [
        [slice(start, min(start + size, n)) for start in range(0, n, size)] for n, size in zip(grid, block, strict=True)
    ]
    return [(x, y, z) for x in along[0] for y in along[1] for z in along[2]]


def _choose(weights: np.ndarray, draw: float) -> int:
    """Draws an index with probability proportional to its weight; at least one weight is positive."""
    ends = np.cumsum(weights)
    chosen = int(np.searchsorted(ends, draw * ends[-1], side="right"))
    return min(chosen, int(np.flatnonzero(weights)[-1]))  # rounding
