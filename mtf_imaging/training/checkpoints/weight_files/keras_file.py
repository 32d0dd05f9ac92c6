"""Keras files: `.keras` archives, `.weights.h5` files, and the HDF5 files of Keras 2."""

import io
import zipfile
from collections.abc import Iterator

import h5py
import numpy as np

from mtf_imaging.training.checkpoints.weight_files.weight_file import damaged, damaged_array

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
KERAS_MEMBER = "model.weights.h5"
_KIND = "a Keras file"
_VARS = "vars"  # the group with a layer's numbered variables in Keras 3


class KerasFile:
    """A file in which Keras stored a model or its weights.

    Keras 2 names variables, such as `conv1_conv/kernel`. Keras 3 numbers the variables of a layer, such as
    `conv1_conv/0`, and stores the name of the layer next to them.

    Args:
      path: the path of the file.

    Attributes:
      path: the same path.
      shapes: the shape of each variable, by name.

    Raises:
      CheckpointError: it is not such a file, or is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with self._open() as file:
                self._datasets = dict(sorted(_datasets(file)))
                self.shapes = {name: tuple(file[own].shape) for name, own in self._datasets.items()}
        except (OSError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
            raise damaged(path, _KIND, error) from error

    def read(self, name: str) -> np.ndarray:
        """Returns a variable; see `WeightFile`."""
        try:
            with self._open() as file:
                return np.asarray(file[self._datasets[name]][()])
        except (OSError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
            raise damaged_array(self.path, name, error) from error

    def _open(self) -> h5py.File:
        if not zipfile.is_zipfile(self.path):
            return h5py.File(self.path, "r")
        with zipfile.ZipFile(self.path) as archive:
            return h5py.File(io.BytesIO(archive.read(KERAS_MEMBER)), "r")


def _datasets(file: h5py.File) -> Iterator[tuple[str, str]]:
    """Yields the variable names in a file, and the paths of their datasets."""
    paths: list[str] = []
    file.visititems(lambda path, item: paths.append(path) if isinstance(item, h5py.Dataset) else None)
    for path in paths:
        group, _, name = path.rpartition("/")
        if group.rpartition("/")[2] == _VARS:
            layer = file[group].attrs.get("name", group.removesuffix(f"/{_VARS}").rpartition("/")[2])
            yield f"{layer}/{name}", path
        else:
            # The group of a layer precedes the name of the variable, which itself begins with the name of the layer.
            yield f"{group.rpartition('/')[2]}/{name.partition(':')[0]}", path
