"""The content of a file without what differs between machines, as a digest."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np

import mtf_imaging

# Numbers with a fraction or an exponent; other numbers are compared exactly.
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)(?!\w|\.\d)")
_VARYING = {
    r"(?<![\w.])[0-9a-f]{12,64}(-dirty)?\b": "DIGEST",  # of commits, sources, configurations and weights
    r'(commit\\*": )(null|\\*"DIGEST\\*")': r"\1DIGEST",  # null outside of a repository
    rf"\b{re.escape(mtf_imaging.__version__)}(\+g[0-9a-f]+(\.dirty)?)?": "VERSION",
    r"\b\d+(\.\d+){6,}\b": "UID",
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?": "DATE",
}
# A number below the first value counts by its change, one above by its relative change; the second is its weight.
_FINE, _ROUGH = (1e-6, 1.0), (1e-2, 1e-2)
_TOLERANCE = 1e-5


class Content:
    """A digest of two parts: a hash of everything that must be equal, and a weighted sum of all floating-point numbers.

    Rounded numbers would differ between machines where they are close to a border. The sum is compared with a
    tolerance instead. It shows any number that changes by 1e-5 of its value, because it adds logarithms, with random
    weights of both signs.

    Args:
      root: the folder whose path is replaced in texts.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._hash, self._sum, self._count = str(root), hashlib.sha256(), 0.0, 0

    def __str__(self) -> str:
        return f"{self._hash.hexdigest()[:16]} {self._sum:.6f}"

    def exact(self, *values: Any) -> None:
        """Adds values that must be equal."""
        for value in values:
            self._hash.update(value if isinstance(value, bytes) else repr(value).encode())
            self._hash.update(b"\0")

    def numbers(self, values: Any, is_rough: bool = False) -> None:
        """Adds numbers; those computed in float32 are `is_rough`."""
        numbers = np.asarray(values, np.float64).ravel()
        self._count += 1
        rng = np.random.default_rng(self._count)
        weights = rng.uniform(0.5, 1, numbers.size) * rng.choice([-1, 1], numbers.size)
        is_finite = np.isfinite(numbers)
        self.exact([str(number) for number in numbers[~is_finite]], np.packbits(is_finite).tobytes())
        unit, weight = _ROUGH if is_rough else _FINE
        self._sum += weight * float(np.arcsinh(numbers[is_finite] / unit) @ weights[is_finite])

    def array(self, array: Any, is_rough: bool = False) -> None:
        """Adds the dtype, the shape and the elements of an array."""
        array = np.asarray(array)
        self.exact(array.dtype.str, array.shape)
        if array.dtype.kind == "f":
            self.numbers(array, is_rough)
        else:
            self.exact(array.tolist() if array.dtype.kind == "O" else array.tobytes())

    def text(self, text: str) -> None:
        """Adds a text."""
        text = text.replace(self._root, "FOLDER")
        for pattern, word in _VARYING.items():
            text = re.sub(pattern, word, text)
        self.numbers([float(number) for number in _NUMBER.findall(text)])
        self.exact(_NUMBER.sub("NUMBER", text))


def is_same(digest: str, other: str) -> bool:
    """Returns whether two digests belong to equal contents."""
    (exact, number), (other_exact, other_number) = digest.split(), other.split()
    return exact == other_exact and abs(float(number) - float(other_number)) <= _TOLERANCE
