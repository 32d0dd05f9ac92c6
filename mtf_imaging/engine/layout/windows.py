"""Arithmetic of a window that slides along one dimension: output sizes, padding, and halos.

A window operation (convolution, pooling) has one `Window` for each spatial dimension. If that dimension is split over
processors, `plan_split` computes how many voxels each processor needs from the slices of its neighbors.
`plan_adjoint_split` does so for transposed windows. Pure Python.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from mtf_imaging.errors import ShapeError

PADDINGS = ("SAME", "VALID")


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of `kernel` taps, `dilation` voxels apart, that moves by `stride` voxels.

    The padding is "SAME" or "VALID", as in `tf.nn`, or explicit: numbers of voxels (before, after). Negative ones crop.
    """

    kernel: int
    stride: int = 1
    dilation: int = 1
    padding: str | tuple[int, int] = "SAME"

    def __post_init__(self) -> None:
        if self.padding not in PADDINGS and not _is_pair(self.padding):
            raise ShapeError(f"padding must be 'SAME', 'VALID' or a pair of ints, not {self.padding!r}")
        for field in ("kernel", "stride", "dilation"):
            if getattr(self, field) < 1:
                raise ShapeError(f"{field} must be at least 1, not {getattr(self, field)}")

    @property
    def extent(self) -> int:
        """The number of voxels from the first tap to the last: `(kernel - 1) dilation + 1`."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def explicit(self) -> tuple[int, int]:
        """The explicit padding (before, after); zeros for "SAME" and "VALID"."""
        return (0, 0) if isinstance(self.padding, str) else self.padding

    @property
    def cropped(self) -> int:
        """The number of voxels that negative padding removes."""
        return sum(max(0, -pad) for pad in self.explicit)

    def output_size(self, size: int) -> int:
        """Returns the number of windows in `size` voxels, or 0 if no window fits."""
        if self.padding == "SAME":
            return -(-size // self.stride)
        if size <= self.cropped:
            return 0
        return max(0, (size + sum(self.explicit) - self.extent) // self.stride + 1)

    def span(self, outputs: int) -> int:
        """Returns the number of voxels that `outputs` consecutive windows cover."""
        return (outputs - 1) * self.stride + self.extent

    def pads(self, size: int) -> tuple[int, int]:
        """Returns the number of padding voxels (before, after) that VALID windows need; negative numbers crop.

        TensorFlow's SAME padding puts an odd voxel after. The number after is the one closest to 0 that gives the right
        number of windows, so padding does not add voxels that the stride would skip.
        """
        missing = self.span(self.output_size(size)) - size
        before = max(0, missing) // 2 if self.padding == "SAME" else self.explicit[0]
        after = missing - before
        return before, max(after, min(0, after + self.stride - 1))

    def equals(self, padding: str, size: int) -> bool:
        """Returns whether the windows in `size` voxels are the same with `padding`, which is "SAME" or "VALID"."""
        if self.padding == padding:
            return True
        other = dataclasses.replace(self, padding=padding)
        return (self.output_size(size), self.pads(size)) == (other.output_size(size), other.pads(size))

    def transposed_size(self, size: int) -> int:
        """Returns the default output size of the transposed window, for input size n and stride s.

        It is `n s` for SAME and `n s + max(extent - s, 0)` for VALID. For explicit padding, it is
        `(n - 1) s + extent - before - after`.
        """
        if self.padding == "SAME":
            return size * self.stride
        if self.padding == "VALID":
            return size * self.stride + max(self.extent - self.stride, 0)
        return self.span(size) - sum(self.explicit)


def _is_pair(padding: object) -> bool:
    return isinstance(padding, tuple) and len(padding) == 2 and all(type(pad) is int for pad in padding)


@dataclasses.dataclass(frozen=True)
class SplitPlan:
    """The voxels that each of `parts` slices of a dimension needs to compute its share of the windows.

    Every slice of `size` voxels is widened by `before` and `after` voxels. Slice i then computes `outputs` windows on
    voxels `[starts[i], starts[i] + length)` of the widened slice, `stride` voxels apart.
    """

    parts: int
    size: int
    outputs: int
    before: int
    after: int
    starts: tuple[int, ...]
    length: int
    stride: int

    @property
    def width(self) -> int:
        """The number of voxels in a widened slice."""
        return self.before + self.size + self.after

    @property
    def needs_cut(self) -> bool:
        """Whether a widened slice must be cut before a VALID window slides over it.

        If all slices start at 0 and a widened slice exceeds `length` by less than a stride, this adds no window.
        """
        return any(self.starts) or self.width >= self.length + self.stride


def plan_split(window: Window, size: int, parts: int) -> SplitPlan:
    """Plans a split of `size` voxels over `parts` processors; at least one window must fit into `size`.

    Slice i owns inputs `[i m, (i + 1) m)` and computes windows `[i q, (i + 1) q)`, which read
    `[i q s - pad, i q s - pad + span(q))`, with m = ceil(size / parts), q = ceil(outputs / parts), stride s. The halo
    is the same for every slice exactly when m = q s. Otherwise it grows with i.

    The last slices may own fewer voxels and windows, or none. Windows that do not exist have undefined results. A slice
    without windows computes them at the position of the last slice with a window, so that it does not need its own
    halo.
    """
    outputs = window.output_size(size)
    m, q = -(-size // parts), -(-outputs // parts)
    pad, _ = window.pads(size)
    first = [i * q * window.stride - pad for i in range(-(-outputs // q))]
    return _split(parts, m, q, first, window.span(q), window.stride)


def _split(parts: int, size: int, outputs: int, first: Sequence[int], length: int, stride: int) -> SplitPlan:
    """Returns the plan of slices that read `length` voxels from `first[i]` of the whole on; the last are empty."""
    before = [i * size - at for i, at in enumerate(first)]
    widest = max(0, *before)
    starts = [widest - b for b in before]
    return SplitPlan(
        parts=parts,
        size=size,
        outputs=outputs,
        before=widest,
        after=max(0, *(length - size - b for b in before)),
        starts=(*starts, *starts[-1:] * (parts - len(starts))),
        length=length,
        stride=stride,
    )


class AdjointPlan(NamedTuple):
    """The windows that each slice of a dimension needs to compute its own voxels from transposed windows.

    `windows` describes the windows that a slice needs, as `plan_split` describes voxels. These windows, transposed,
    compute `cut.size` voxels, and `cut` describes which of them the slice owns.
    """

    windows: SplitPlan
    cut: SplitPlan


def plan_adjoint_split(window: Window, size: int, parts: int) -> AdjointPlan:
    """Plans the adjoint of `plan_split`, with the same slices of voxels and windows.

    Voxel v is in the windows from `(v + pad - extent + 1) / s` to `(v + pad) / s`, with stride s. With slices of m
    voxels and q windows, slice i needs the same number of windows as all others, and begins at voxel
    `i m + pad - first s` of them.
    """
    m, q, stride, (pad, _) = -(-size // parts), -(-window.output_size(size) // parts), window.stride, window.pads(size)
    places = range(-(-size // m))
    # A stride above the extent skips voxels, so that the first voxel may precede the first window that contains one.
    first = [min((i * m + pad) // stride, -(-(i * m + pad - window.extent + 1) // stride)) for i in places]
    length = max(((i + 1) * m + pad - 1) // stride + 1 - f for i, f in enumerate(first))
    windows = _split(parts, q, length, first, length, 1)
    starts = [i * m + pad - f * stride for i, f in enumerate(first)]
    covered = max(window.span(length), *(start + m for start in starts))
    starts.extend([starts[-1]] * (parts - len(starts)))
    return AdjointPlan(windows, SplitPlan(parts, covered, m, 0, 0, tuple(starts), m, 1))
