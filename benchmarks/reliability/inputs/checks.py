"""Checks of results that are right, which return what is wrong, or ""."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel
import numpy as np

Check = Callable[[Path, str], str]


def spacing(*expected: float, index: int = 0) -> Check:
    """Checks the voxel size in mm of a case of the converted records."""

    def check(here: Path, text: str) -> str:
        actual = _cases(here)[index]["spacing"]
        return "" if np.allclose(actual, expected, rtol=1e-3) else f"spacing {actual} instead of {expected}"

    return check


def keys(*expected: str) -> Check:
    """Checks the keys of the converted cases."""

    def check(here: Path, text: str) -> str:
        actual = [case["case"] for case in _cases(here)]
        return "" if actual == list(expected) else f"cases {actual} instead of {list(expected)}"

    return check


def num_cases(expected: int) -> Check:
    """Checks the number of converted cases."""

    def check(here: Path, text: str) -> str:
        actual = len(_cases(here))
        return "" if actual == expected else f"{actual} cases instead of {expected}"

    return check


def same_records(good: str = "records") -> Check:
    """Checks that the converted records have the HU and labels of the undamaged cases."""

    def check(here: Path, text: str) -> str:
        import zarr

        for path in sorted((here.parent / "good" / good).glob("*.zarr")):
            for name in ("0", "labels/segmentation/0"):
                old, new = (zarr.open(place / name, mode="r")[:] for place in (path, here / "out" / path.name))
                if not np.array_equal(old, new):
                    return f"{path.name}/{name} differs from that of the undamaged cases"
        return ""

    return check


def prediction(shape: Sequence[int], file: str = "out.nii.gz") -> Check:
    """Checks the shape of a written segmentation."""

    def check(here: Path, text: str) -> str:
        actual = nibabel.load(here / file).shape
        return "" if actual == tuple(shape) else f"a segmentation of {actual} instead of {tuple(shape)}"

    return check


def has_files(*names: str) -> Check:
    """Checks that files exist."""

    def check(here: Path, text: str) -> str:
        missing = [name for name in names if not (here / name).exists()]
        return f"{', '.join(missing)}: not written" if missing else ""

    return check


def unchanged(file: str, content: bytes) -> Check:
    """Checks that a file of the user has the bytes that it had."""

    def check(here: Path, text: str) -> str:
        return "" if (here / file).read_bytes() == content else f"{file} was overwritten"

    return check


def metric(name: str, expected: float, tolerance: float = 0.01) -> Check:
    """Checks a number of metrics.json, by its keys separated by dots."""

    def check(here: Path, text: str) -> str:
        value = json.loads((here / "out/metrics.json").read_text())
        for key in name.split("."):
            value = value[key]
        return "" if abs(value - expected) <= tolerance else f"{name} is {value} instead of {expected}"

    return check


def _cases(here: Path) -> list[dict]:
    return json.loads((here / "out/dataset.json").read_text())["cases"]
