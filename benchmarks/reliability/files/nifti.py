"""NIfTI files: a small abdomen with its mask, and functions that edit headers, values and bytes."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

SHAPE, SPACING = (12, 10, 8), (1.5, 2.0, 3.0)
Edit = Callable[[Path], None]


def abdomen(number: int = 0, shape: tuple[int, ...] = SHAPE) -> tuple[np.ndarray, np.ndarray]:
    """Returns HU and labels `[x, y, z]`: air, a body, a liver (1) and a lesion (2)."""
    noise = np.random.default_rng(number).normal(0, 10, shape)
    labels = np.zeros(shape, np.uint8)
    labels[3:9, 3:8, 2:7] = 1
    labels[4:6, 4:6, 3:5] = 2
    hu = np.where(labels == 2, 40, np.where(labels == 1, 110, -20)) + noise
    hu[:1], hu[-1:], hu[:, :1], hu[:, -1:] = -1000, -1000, -1000, -1000
    return hu.astype(np.int16), labels


def write(path: Path, values: np.ndarray, affine: np.ndarray | None = None, **header: Any) -> Path:
    """Writes an array as a NIfTI file, with additional header fields."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if affine is None:
        affine = nibabel.affines.from_matvec(np.diag(SPACING), (-20.0, 10.0, 30.0))
    image = nibabel.Nifti1Image(values, affine, dtype=values.dtype)
    image.header.set_xyzt_units("mm")
    for name, value in header.items():
        image.header[name] = value
    nibabel.save(image, path)
    return path


def write_cases(folder: Path, end: int = 2, first: int = 0) -> Path:
    """Writes cases as in LiTS, numbered from `first` to `end - 1`."""
    for index in range(first, end):
        for name, values in zip(("volume", "segmentation"), abdomen(index), strict=True):
            write(folder / f"{name}-{index}.nii.gz", values)
    return folder


def read(path: Path) -> bytes:
    """Returns the uncompressed bytes of a file."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def store(path: Path, data: bytes) -> None:
    """Writes bytes, compressed if the ending requires it."""
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)


def header(**fields: Any) -> Edit:
    """Sets header fields without any checks."""

    def edit(path: Path) -> None:
        data = read(path)
        block = nibabel.Nifti1Header(data[:348], check=False)
        for name, value in fields.items():
            block[name] = value
        store(path, block.binaryblock + data[348:])

    return edit


def dims(**sizes: int) -> Edit:
    """Sets numbers in the field `dim`, such as `d0=7, d1=-3`."""

    def edit(path: Path) -> None:
        data = read(path)
        block = nibabel.Nifti1Header(data[:348], check=False)
        values = block["dim"].copy()
        for name, value in sizes.items():
            values[int(name[1:])] = value
        block["dim"] = values
        store(path, block.binaryblock + data[348:])

    return edit


def pixdim(index: int, value: float) -> Edit:
    """Sets a number in `pixdim`; the qform provides the affine."""

    def edit(path: Path) -> None:
        data = read(path)
        block = nibabel.Nifti1Header(data[:348], check=False)
        values = block["pixdim"].copy()
        values[index] = value
        block["pixdim"], block["sform_code"] = values, 0
        store(path, block.binaryblock + data[348:])

    return edit


def affine(change: Callable[[np.ndarray], np.ndarray], sform: bool = True, qform: bool = True) -> Edit:
    """Replaces the affine in one or both forms of the header."""

    def edit(path: Path) -> None:
        image = nibabel.load(path)
        new = change(image.affine.copy())
        values = np.asarray(image.dataobj)
        if sform:
            image.header["srow_x"], image.header["srow_y"], image.header["srow_z"] = new[:3]
        if qform:
            image.header.set_qform(new, 1, strip_shears=True)
        image.header["sform_code"], image.header["qform_code"] = 1, int(qform)
        image.header["vox_offset"], image.header["magic"] = 352, b"n+1"
        store(path, image.header.binaryblock + bytes(4) + values.astype(values.dtype).tobytes(order="F"))

    return edit


def values(change: Callable[[np.ndarray], np.ndarray]) -> Edit:
    """Replaces the values, and keeps the affine."""

    def edit(path: Path) -> None:
        image = nibabel.load(path)
        write(path, change(np.asarray(image.dataobj)), image.affine)

    return edit


def voxel(value: float, dtype: str = "float32") -> Edit:
    """Sets one voxel of a floating point image."""

    def change(old: np.ndarray) -> np.ndarray:
        new = old.astype(dtype)
        new[5, 5, 4] = value
        return new

    return values(change)


def stored_bytes(change: Callable[[bytes], bytes]) -> Edit:
    """Changes the bytes on disk."""
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def uncompressed(change: Callable[[bytes], bytes]) -> Edit:
    """Changes the bytes before compression."""
    return lambda path: store(path, change(read(path)))
