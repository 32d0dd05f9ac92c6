"""Arithmetic of a window that slides along one dimension: output sizes, padding, and what a slice needs.

Pure Python. A window op (convolution, pool) has one `Window` for each spatial dimension; when that dimension is split
over processors, `plan_split` says how much of its neighbors' slices each processor needs.
"""

import dataclasses

from mtf_imaging.errors import ShapeError

PADDINGS = ("SAME", "VALID")


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of `kernel` taps, `dilation` apart, that moves by `stride`; padding as in `tf.nn`."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    padding: str = "SAME"

    def __post_init__(self) -> None:
        if self.padding not in PADDINGS:
            raise ShapeError(f"padding must be 'SAME' or 'VALID', not {self.padding!r}")
        for field in ("kernel", "stride", "dilation"):
            if getattr(self, field) < 1:
                raise ShapeError(f"{field} must be at least 1, not {getattr(self, field)}")

    @property
    def extent(self) -> int:
        """Voxels from the first tap to the last: `(kernel - 1) dilation + 1`."""
        return (self.kernel - 1) * self.dilation + 1

    def output_size(self, size: int) -> int:
        """Number of windows in `size` voxels; 0 where not even one fits."""
        if self.padding == "SAME":
            return -(-size // self.stride)
        return max(0, (size - self.extent) // self.stride + 1)

    def span(self, outputs: int) -> int:
        """Voxels that `outputs` windows in a row cover."""
        return (outputs - 1) * self.stride + self.extent

    def pads(self, size: int) -> tuple[int, int]:
        """Voxels of padding (before, after).

        TensorFlow's SAME puts the odd one after, and none where the stride skips it.
        """
        if self.padding == "VALID":
            return 0, 0
        total = max(0, self.span(self.output_size(size)) - size)
        return total // 2, total - total // 2

    def transposed_size(self, size: int) -> int:
        """Default output size of the transposed window: `n s` for SAME, `n s + max(extent - s, 0)` for VALID."""
        if self.padding == "SAME":
            return size * self.stride
        return size * self.stride + max(self.extent - self.stride, 0)


@dataclasses.dataclass(frozen=True)
class SplitPlan:
    """What each of `parts` equal slices of a dimension needs to compute its equal share of the windows.

    A slice of `size` voxels is widened by `before` and `after` voxels, the same for all slices; slice i then computes
    on `[starts[i], starts[i] + length)` of the widened slice.
    """

    parts: int
    size: int
    outputs: int
    before: int
    after: int
    starts: tuple[int, ...]
    length: int

    @property
    def width(self) -> int:
        """Voxels of a widened slice."""
        return self.before + self.size + self.after

    @property
    def needs_cut(self) -> bool:
        """Whether a widened slice must be cut before a VALID window runs over it.

        If all slices start at 0, a widened slice is longer than `length` by less than a stride, which adds no window.
        """
        return any(self.starts)


def check_split(window: Window, size: int, parts: int) -> tuple[tuple[str, int], ...]:
    """Returns the sizes that `parts` does not divide, as pairs `("input" or "output", size)`; () for a legal split."""
    sizes = (("input", size), ("output", window.output_size(size)))
    return tuple((which, n) for which, n in sizes if n % parts)


def plan_split(window: Window, size: int, parts: int) -> SplitPlan:
    """Plans a legal split of `size` voxels over `parts` processors.

    Slice i owns inputs `[i m, (i + 1) m)` and computes windows `[i q, (i + 1) q)`, which read
    `[i q s - pad, i q s - pad + span(q))`, with m = size / parts, q = outputs / parts, stride s. The halo is the same
    for every slice exactly when m = q s.

    Raises:
      ShapeError: the split is not legal, see `check_split`.
    """
    bad = check_split(window, size, parts)
    if bad:
        raise ShapeError(", ".join(f"{which} size {n} is not divisible by {parts}" for which, n in bad))
    m, q = size // parts, window.output_size(size) // parts
    pad, _ = window.pads(size)
    length = window.span(q)
    before = [pad + i * (m - q * window.stride) for i in range(parts)]
    after = [length - m - b for b in before]
    widest = max(0, *before)
    return SplitPlan(
        parts=parts,
        size=m,
        outputs=q,
        before=widest,
        after=max(0, *after),
        starts=tuple(widest - b for b in before),
        length=length,
    )


def nearest_legal_sizes(window: Window, size: int, parts: int) -> tuple[int | None, int | None]:
    """Returns the nearest sizes `(below, above)` that can be split over `parts`, with None where there is none.

    Both are `size` itself if it is legal.
    """

    def legal(n: int) -> bool:
        return n > 0 and window.output_size(n) > 0 and not check_split(window, n, parts)

    if legal(size):
        return size, size
    below = next((n for n in range(size - 1, 0, -1) if legal(n)), None)
    # Sizes that are multiples of parts x stride leave room for every window, so the search ends.
    limit = size + parts * window.stride * 2 + window.extent
    return below, next((n for n in range(size + 1, limit + 1) if legal(n)), None)
