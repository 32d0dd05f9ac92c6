"""Reads regions of records in a TensorFlow graph."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import tensorflow as tf

from mtf_imaging.data.records.manifest import Manifest, has_hu
from mtf_imaging.data.records.stored import StoredRecord

P = ParamSpec("P")
T = TypeVar("T")


class RegionReader:
    """Reads regions of a folder's records in a TensorFlow graph.

    Only the chunks that overlap a region are read. Files are opened separately for each region, so no part of a record
    stays in memory.

    Args:
      data_dir: records folder.
      manifest: its manifest, or a subset of it.

    Attributes:
      error: the error of a failed read, or None, because TensorFlow passes on only the text of errors.
    """

    def __init__(self, data_dir: str | Path, manifest: Manifest) -> None:
        self._data_dir, self._manifest, self._keys = data_dir, manifest, manifest.cases
        self._channels = None if has_hu(manifest.description) else len(manifest.description.channels)
        self.error: Exception | None = None

    def __call__(self, case, image_bounds, label_bounds) -> tuple:
        """Returns voxels of a case.

        Args:
          case: Tensor[] int64, the case number.
          image_bounds: Tensor[3, 2] int64, the start and stop voxels of the image along x, y, z.
          label_bounds: the same for the labels.

        Returns:
          The image, Tensor[x, y, z] int16 of HU or Tensor[x, y, z, channels] float32, and the labels, Tensor[x, y, z]
          uint8, without static sizes of x, y and z.
        """
        dtype = tf.int16 if self._channels is None else tf.float32
        read = self.guarded(self._read)
        image, labels = tf.numpy_function(read, [case, image_bounds, label_bounds], [dtype, tf.uint8])
        image.set_shape([None] * 3 + ([] if self._channels is None else [self._channels]))
        labels.set_shape([None] * 3)
        return image, labels

    def record(self, case: int) -> StoredRecord:
        """Opens the record of a case."""
        return self._manifest.open_record(self._data_dir, self._keys[case])

    def guarded(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wraps a function for use in a graph; stores its exception in `error`."""

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self.error = error
                raise

        return call

    def _read(self, case: np.int64, image_bounds: np.ndarray, label_bounds: np.ndarray) -> tuple:
        record = self.record(int(case))
        return record.image(_region(image_bounds)), record.labels(_region(label_bounds))


def _region(bounds: np.ndarray) -> tuple[slice, slice, slice]:
    x, y, z = (slice(start, stop) for start, stop in bounds.tolist())
    return x, y, z
