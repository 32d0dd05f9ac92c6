"""Keras files: `.keras` archives, `.weights.h5` files, and the HDF5 files of Keras 2."""

import collections
import io
import zipfile
from collections.abc import Iterator

import h5py
import numpy as np

from mtf_imaging.training.checkpoints.weight_files.weight_file import WeightFile, check_members, read_member

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
KERAS_MEMBER = "model.weights.h5"
_OPTIMIZER = "optimizer_weights"  # the group with the slots of optimizers in Keras 2
_VARS = "vars"  # the group with a layer's numbered variables in Keras 3


class KerasFile(WeightFile):
    """A file in which Keras stored a model or its weights.

    Keras 2 names variables, such as `conv1_conv/kernel`. Keras 3 numbers the variables of a layer, such as
    `conv1_conv/0`, and stores the name of the layer next to them. If several variables have the same name, their names
    are their paths in the file instead. A file that refers to values in other files counts as damaged.
    """

    kind = "a Keras file"

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        with self._open() as file:
            pairs = sorted(_datasets(file))
            count = collections.Counter(name for name, _ in pairs)
            self._datasets = {name if count[name] == 1 else own: own for name, own in pairs}
            return {name: tuple(file[own].shape) for name, own in self._datasets.items()}

    def _array(self, name: str) -> np.ndarray:
        with self._open() as file:
            return np.asarray(file[self._datasets[name]][()])

    def _open(self) -> h5py.File:
        if not zipfile.is_zipfile(self.path):
            return h5py.File(self.path, "r")
        with zipfile.ZipFile(self.path) as archive:
            check_members(self.path, archive.infolist())  # Keras reads the others
        return h5py.File(io.BytesIO(read_member(self.path, KERAS_MEMBER)), "r")


def _datasets(file: h5py.File) -> Iterator[tuple[str, str]]:
    """Yields the variable names in a file, and the paths of their datasets."""
    links: list[tuple[str, object]] = []
    file.visititems_links(lambda *link: links.append(link))
    for path, link in links:
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"'{path}' is a link to other data")
        if not isinstance(file[path], h5py.Dataset):
            continue
        _check_stored(path, file[path])
        group, _, name = path.rpartition("/")
        if group.startswith(_OPTIMIZER):
            yield path, path  # the rest of the path is often the name of a weight
        elif group.rpartition("/")[2] == _VARS:
            layer = file[group].attrs.get("name", group.removesuffix(f"/{_VARS}").rpartition("/")[2])
            yield f"{layer}/{name}", path
        else:
            # The group of a layer precedes the name of the variable, which itself begins with the name of the layer.
            yield f"{group.rpartition('/')[2]}/{name.partition(':')[0]}", path


def _check_stored(path: str, dataset: h5py.Dataset) -> None:
    """Checks that a dataset's values are in its file: other files of this machine are not read, and nothing is huge."""
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"'{path}' refers to values in other files")
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > stored:
        raise ValueError(f"'{path}' has {dataset.nbytes} bytes, but the file stores {stored}, or compresses them")
