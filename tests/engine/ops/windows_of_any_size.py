"""Window operations, resizes and padding of any size over any number of processors, with references in TensorFlow."""

import dataclasses
import math

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.meshes.grid import ShardGrid
from tests.engine.harness import Case
from tests.engine.ops import padded, resizing

RESIZES = {
    "linear": ("linear", False),
    "nearest": ("nearest", False),
    "linear, corners aligned": ("linear", True),
    "nearest, corners aligned": ("nearest", True),
}
PADS = ("constant", "reflect", "symmetric")
MESH = ("rows", "cols", "planes")


@dataclasses.dataclass(frozen=True)
class Line:
    """One spatial dimension of an operation.

    Attributes:
      size: number of voxels. In a transposed convolution, this is the size of the output.
      parts: number of processors over which the dimension is split.
      kernel: number of taps of the window.
      stride: stride of the window.
      dilation: dilation of the window.
      pads: the explicit padding, if the operation has explicit padding.
      output: the output size of a resize.
    """

    size: int
    parts: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pads: tuple[int, int] = (0, 0)
    output: int = 1

    @property
    def extent(self):
        return (self.kernel - 1) * self.dilation + 1

    def padding(self, kind):
        """Returns the padding before and after of windows with padding `kind`: "SAME", "VALID" or "explicit"."""
        if kind == "SAME":
            total = max(0, (-(-self.size // self.stride) - 1) * self.stride + self.extent - self.size)
            return total // 2, total - total // 2
        return self.pads if kind == "explicit" else (0, 0)

    def windows(self, kind):
        """Returns the number of windows; zero or less if no window fits."""
        if kind == "explicit" and self.size <= sum(max(0, -pad) for pad in self.pads):
            return 0
        return (self.size + sum(self.padding(kind)) - self.extent) // self.stride + 1


@dataclasses.dataclass(frozen=True)
class Setting:
    """An operation and its layout.

    Attributes:
      op: "conv", "conv_transpose", "max_pool", "avg_pool", or a key of `RESIZES` or `PADS`.
      lines: a `Line` for each spatial dimension.
      padding: "SAME", "VALID" or "explicit".
      groups: number of groups of a convolution.
      batch, channels, filters: sizes of the other dimensions.
      cores, model, filter_model: number of processors over which they are split.
    """

    op: str
    lines: tuple[Line, ...]
    padding: str = "SAME"
    groups: int = 1
    batch: int = 2
    channels: int = 2
    filters: int = 2
    cores: int = 1
    model: int = 1
    filter_model: int = 1

    def __str__(self):
        lines = "; ".join(
            f"{n.size}/{n.parts}"
            + f" k{n.kernel}" * (n.kernel > 1)
            + f" s{n.stride}" * (n.stride > 1)
            + f" d{n.dilation}" * (n.dilation > 1)
            + f" pads{n.pads}" * (self.padding == "explicit" or self.op in PADS)
            + f" to {n.output}" * (self.op in RESIZES)
            for n in self.lines
        )
        others = f"groups {self.groups}, " * (self.groups > 1) + f"batch {self.batch}/{self.cores}, "
        others += f"channels {self.channels}/{self.model}, filters {self.filters}/{self.filter_model}"
        return f"{self.op} {self.padding} {lines}, {others}"

    @property
    def is_legal(self):
        """Whether all windows of the operation contain a voxel."""
        if self.op in RESIZES:
            return True
        if self.op in PADS:
            limits = [{"reflect": n.size - 1, "symmetric": n.size}.get(self.op, max(n.pads)) for n in self.lines]
            return all(max(n.pads) <= limit for n, limit in zip(self.lines, limits, strict=True))
        inside = all(max(n.padding(self.padding)) < n.extent for n in self.lines)
        return all(n.windows(self.padding) > 0 for n in self.lines) and (inside or not self.op.endswith("pool"))

    @property
    def layout(self):
        """Returns the mesh shape and the layout."""
        splits = [(name, rule, n.parts) for name, rule, n in zip("xyz", MESH, self.lines)]
        splits += [("batch", "cores", self.cores), ("channels", "model", self.model)]
        splits += [("filters", "filter_model", self.filter_model)] if self.op.startswith("conv") else []
        splits = [split for split in splits if split[2] > 1]
        return ",".join(f"{rule}:{n}" for _, rule, n in splits), ",".join(f"{name}:{rule}" for name, rule, _ in splits)

    def case(self):
        """Returns the `Case`."""
        build = {"conv": _conv, "conv_transpose": _conv_transpose, "max_pool": _pool, "avg_pool": _pool}
        fn, reference = build.get(self.op, _resize if self.op in RESIZES else _pad)(self)
        sizes = [n.windows(self.padding) if self.op == "conv_transpose" else n.size for n in self.lines]
        image = ",".join(f"{name}:{size}" for name, size in zip("xyz", sizes))
        shapes = {"x": f"batch:{self.batch},{image},channels:{self.channels}"}
        if self.op.startswith("conv"):
            taps = ",".join(f"f{name}:{n.kernel}" for name, n in zip("xyz", self.lines))
            channels = f"channels:{self.channels},filters:{self.filters}"
            if self.groups > 1:
                channels = f"per_group:{self.channels // self.groups},filters:{self.filters}"
            elif self.op == "conv_transpose":
                channels = f"filters:{self.filters},channels:{self.channels}"
            shapes["f"] = f"{taps},{channels}"
        # Repeated values test which of several equal values a max pool selects.
        integers = {"x": 3} if self.op == "max_pool" and sum(sizes) % 2 else {}
        return Case(str(self), fn, reference, shapes, integers)

    @property
    def _arguments(self):
        """The strides, padding and dilations of the operation of `mi.ops`."""
        pads = [n.pads for n in self.lines] if self.padding == "explicit" else self.padding
        return [n.stride for n in self.lines], pads, [n.dilation for n in self.lines]

    @property
    def _pads(self):
        return [n.padding(self.padding) for n in self.lines]


def _conv(setting):
    strides, padding, dilations = setting._arguments
    groups = {"groups": setting.groups} if setting.groups > 1 else {}
    op, every = getattr(mi.ops, f"conv{len(strides)}d"), (slice(None), *(slice(None, None, s) for s in strides))

    def reference(x, f):
        """Computes the windows of stride 1 of each group, and keeps every `stride`-th one."""
        x, f = padded.pad(x, setting._pads), padded.dilate(f, dilations)
        pairs = zip(tf.split(x, setting.groups, -1), tf.split(f, setting.groups, -1), strict=True)
        return tf.concat([tf.nn.convolution(x, f, 1, "VALID")[every] for x, f in pairs], -1)

    return lambda x, f: op(x, f, strides, padding, dilations, **groups), reference


def _conv_transpose(setting):
    strides, padding, dilations = setting._arguments
    name, sizes = f"conv{len(strides)}d_transpose", [n.size for n in setting.lines]
    full = [n.size + sum(n.padding(setting.padding)) for n in setting.lines]

    def reference(x, f):
        shape = [setting.batch, *full, setting.filters]
        y = getattr(tf.nn, name)(x, padded.dilate(f, dilations), shape, strides, "VALID")
        return padded.pad(y, [(-before, -after) for before, after in setting._pads])

    return lambda x, f: getattr(mi.ops, name)(x, f, strides, padding, sizes, dilations), reference


def _pool(setting):
    strides, padding, _ = setting._arguments
    name, ksize = f"{setting.op}{len(strides)}d", [n.kernel for n in setting.lines]
    return (
        lambda x: getattr(mi.ops, name)(x, ksize, strides, padding),
        lambda x: padded.pooled(name, x, ksize, strides, setting._pads),
    )


def _resize(setting):
    op, sizes = getattr(mi.ops, f"resize{len(setting.lines)}d"), [n.output for n in setting.lines]
    arguments = sizes, *RESIZES[setting.op]
    return lambda x: op(x, *arguments), lambda x: resizing.resize(x, *arguments)


def _pad(setting):
    arguments = [n.pads for n in setting.lines], setting.op
    return lambda x: mi.ops.pad(x, *arguments), lambda x: resizing.pad(x, *arguments)


def devices(mesh_shape, most=8):
    """Returns the logical CPUs, at most `most`, that divide a mesh into as many shards as possible."""
    sizes = [size for _, size in parse_shape(mesh_shape)]
    number = max(range(1, most + 1), key=lambda n: (ShardGrid.make(sizes, n).num_shards, -n))
    return [f"/device:CPU:{i}" for i in range(min(number, math.prod(sizes)))]
