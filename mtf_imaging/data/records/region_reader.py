"""Reads regions of records in a TensorFlow graph."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.records.manifest import Manifest, has_hu
from mtf_imaging.data.records.opening import open_record


class RegionReader:
    """Reads regions of the records of a folder in a TensorFlow graph.

    Only the chunks that overlap a region are read. The files are opened for each region, so nothing of a record is kept
    in memory.

    Args:
      data_dir: folder of records.
      manifest: its manifest, or a part of it; all records have the same grid.

    Attributes:
      error: the error of a read that failed, or None. TensorFlow passes only the text of errors on.
    """

    def __init__(self, data_dir: str | Path, manifest: Manifest) -> None:
        self._manifest = manifest
        self._paths = [manifest.record_path(data_dir, key) for key in manifest.cases]
        self._channels = None if has_hu(manifest.description) else len(manifest.description.channels)
        self.error: Exception | None = None

    def __call__(self, case, image_bounds, label_bounds) -> tuple:
        """Returns voxels of a case.

        Args:
          case: Tensor[] int64, the number of the case.
          image_bounds: Tensor[3, 2] int64, the first and the end voxel of the image along x, y, z.
          label_bounds: the same for the labels.

        Returns:
          The image, Tensor[x, y, z] int16 of HU or Tensor[x, y, z, channels] float32, and the labels, Tensor[x, y, z]
          uint8, without static sizes of x, y and z.
        """
        dtype = tf.int16 if self._channels is None else tf.float32
        image, labels = tf.numpy_function(self._read, [case, image_bounds, label_bounds], [dtype, tf.uint8])
        image.set_shape([None] * 3 + ([] if self._channels is None else [self._channels]))
        labels.set_shape([None] * 3)
        return image, labels

    def _read(self, case: np.int64, image_bounds: np.ndarray, label_bounds: np.ndarray) -> tuple:
        try:
            record = open_record(self._paths[case], self._manifest.sampling)
            self._manifest.check(record.path, record.key, record.source)
            return record.image(_region(image_bounds)), record.labels(_region(label_bounds))
        except Exception as error:
            self.error = error
            raise


def _region(bounds: np.ndarray) -> tuple[slice, slice, slice]:
    x, y, z = (slice(start, stop) for start, stop in bounds.tolist())
    return x, y, z
