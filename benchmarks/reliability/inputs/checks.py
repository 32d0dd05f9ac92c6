"""Checks of correct results, which return the fault or ""."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel
import numpy as np

Check = Callable[[Path, str], str]


def spacing(*expected: float, index: int = 0) -> Check:
    """Checks the voxel size in mm of a case in the converted records."""

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
    """Checks that a user's file has not changed."""

    def check(here: Path, text: str) -> str:
        return "" if (here / file).read_bytes() == content else f"{file} was overwritten"

    return check


def same_scores(here: Path, text: str) -> str:
    """Checks that the scores equal those of the undamaged references and predictions, within 1e-6.

    The provenance is not compared, because it contains the digests of the files.
    """
    old, new = (
        json.loads((place / "metrics.json").read_text()) for place in (here.parent / "good/scores", here / "out")
    )
    pairs = {name: pair for name, pair in _leaves(old, new).items() if not name.startswith(".provenance.")}
    different = [name for name, (a, b) in pairs.items() if not _is_close(a, b)]
    return f"{different[0]} differs from that of the undamaged files" if different else ""


def _leaves(old: object, new: object, name: str = "") -> dict[str, tuple[object, object]]:
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {key: (old.get(key), new.get(key)) for key in {*old, *new}}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = {str(index): pair for index, pair in enumerate(zip(old, new, strict=True))}
    else:
        return {name: (old, new)}
    return {path: leaf for key, (a, b) in pairs.items() for path, leaf in _leaves(a, b, f"{name}.{key}").items()}


def _is_close(a: object, b: object) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-3)
    return a == b


def _cases(here: Path) -> list[dict]:
    return json.loads((here / "out/dataset.json").read_text())["cases"]
