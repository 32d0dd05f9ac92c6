"""RoIAlign: features of regions of interest, sampled from split feature maps without gathering them.

A bilinear sample is a sum over pixels: a contraction of the map with two sparse matrices, one along y and one along x.
Each processor sums over the pixels of its own slices, and one sum over the processors completes the result. In the
gradient, each processor adds the samples to the pixels of its own slices, so no exchange is needed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round, sum_over
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.detection import bins
from mtf_imaging.engine.ops.faults import LayoutFault, cannot_split
from mtf_imaging.engine.ops.window_op import Ints, per_dimension
from mtf_imaging.errors import ShapeError

_CORNERS = 4  # pixels around a sample


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Returns the positions of consecutive parts of these sizes."""
    return [0, *itertools.accumulate(sizes)][:-1]


class _Division:
    """The division of a RoIAlign's work among the processors of a mesh.

    Args:
      mesh: the mesh.
      maps: shapes of the feature maps.
      crops: shape of the result.

    Attributes:
      summed: the mesh axes that split the height or the width of a map, over which samples are summed.
      gathered: {mesh axis: dimension of the crops} for the splits of the crops that the work does not follow. All
          processors along these axes do the same work.
      over_rois: the mesh axis that splits the RoIs, if each processor computes its own; else None.
      num_slices: the number of slices in each stack: 1 if the layout splits no tensor.
    """

    def __init__(self, mesh: ShardMeshImpl, maps: Sequence[mtf.Shape], crops: mtf.Shape) -> None:
        axes = [axis for shape in maps for axis in mesh.split_axes(shape)[1:3]]
        self.summed = sorted({axis for axis in axes if axis is not None})
        rois, *of_crop = mesh.split_axes(crops)[1:4]
        self.over_rois = rois if rois not in self.summed else None
        apart = {1: rois if rois in self.summed else None, 2: of_crop[0], 3: of_crop[1]}
        self.gathered = {axis: dim for dim, axis in apart.items() if axis is not None}
        self.num_slices = mesh.grid.stack_size if any(mesh.is_split(shape) for shape in (*maps, crops)) else 1
        self._mesh, self._maps, self._crops = mesh, maps, crops

    @property
    def rois_axis(self) -> dict[int, int]:
        """{mesh axis: 1} if the work does not follow a split of the RoIs, else an empty dict."""
        return {axis: dim for axis, dim in self.gathered.items() if dim == 1}

    def crops_shape(self) -> list[int]:
        """Returns the shape of the crops that a processor computes."""
        sizes = self._mesh.slice_shape(self._crops)
        for dim in self.gathered.values():
            sizes[dim] = self._crops.dims[dim].size
        return sizes

    def extents(self, counted_once: bool) -> LaidOutTensor:
        """Returns the extents of `bins.Pieces`, for each processor.

        Args:
          counted_once: whether only one processor gets a map that others have as well, because the samples of all
            processors are summed.
        """

        def of_processor(at: Sequence[int]) -> np.ndarray:
            values = np.zeros([len(self._maps), 2, 3], np.int64)
            for level, shape in enumerate(self._maps):
                axes, stored = self._mesh.split_axes(shape), self._mesh.slice_shape(shape)
                repeated = any(at[axis] for axis in self.summed if axis not in axes[1:3])
                for i, dim in enumerate((1, 2)):
                    whole, axis = shape.dims[dim].size, axes[dim]
                    first = 0 if axis is None else at[axis] * stored[dim]
                    count = max(min(stored[dim], whole - first), 0)
                    values[level, i] = whole, first, 0 if counted_once and repeated else count
            return values

        extents = self._mesh.laid_out_constant(of_processor)
        return extents if self.num_slices > 1 else self._mesh.map_stacks(lambda x: x[:1], extents)

    def gather_boxes(self, tensors: Sequence[tuple[mtf.Tensor, LaidOutTensor]]) -> list[LaidOutTensor]:
        """Returns the boxes and levels of the RoIs that each processor computes, as one slice per processor."""
        results = []
        for tensor, value in tensors:
            value = tails.gather(self._mesh, value, self.rois_axis, {1: tensor.shape.dims[1].size})
            results.append(self._mesh.map_stacks(lambda x: tf.broadcast_to(x, [self.num_slices, *x.shape[1:]]), value))
        return results

    def box_exchanges(self, tensors: Sequence[mtf.Tensor]) -> list[Round]:
        """Returns the exchanges of `gather_boxes`."""
        axes = tuple(self.rois_axis)
        sizes = [math.prod(self._mesh.slice_shape(x.shape)) * x.dtype.size for x in tensors]
        return [Round([Exchange("gather", axes, nbytes)]) for nbytes in sizes] if axes else []


class _BoxOperation(mtf.Operation):
    """Base class of RoIAlign and its gradient; the last two inputs are the boxes and their levels.

    Args:
      inputs: the inputs.
      maps: shapes of the feature maps.
      crops: shape of the result of RoIAlign.
      strides: the pixels of the image for each pixel of a map.
      aligned: see `roi_align`.
      name: name of the operation.
    """

    kind: str

    def __init__(
        self,
        inputs: Sequence[mtf.Tensor],
        maps: Sequence[mtf.Shape],
        crops: mtf.Shape,
        strides: Sequence[int],
        aligned: bool,
        name: str,
    ) -> None:
        super().__init__(list(inputs), name=name)
        self._maps, self._crops, self._strides, self._aligned = list(maps), crops, tuple(strides), aligned

    @property
    def sum_dtype(self) -> tf.DType:
        """The dtype of weights and sums."""
        wide = tf.float64 in (self.inputs[0].dtype, self.inputs[-2].dtype)
        return tf.float64 if wide else tf.float32

    @property
    def _bins(self) -> tuple[int, int]:
        _, _, height, width, _ = self._crops.to_integer_list
        return height, width

    def _division(self, mesh: ShardMeshImpl) -> _Division:
        return _Division(mesh, self._maps, self._crops)

    def _boxes(self, lowering: mtf.Lowering, division: _Division) -> list[LaidOutTensor]:
        return division.gather_boxes([(x, lowering.masked(x)) for x in self.inputs[-2:]])

    def _samples(
        self,
        mesh: ShardMeshImpl,
        boxes: tf.Tensor,
        levels: tf.Tensor,
        extents: tf.Tensor,
        starts: Sequence[int],
        steps: Sequence[int],
    ) -> list[bins.Corner]:
        sizes = [(rows, columns) for _, rows, columns, _ in map(mesh.slice_shape, self._maps)]
        pieces = bins.Pieces(extents, sizes, starts, steps, self._strides, 0.5 if self._aligned else 0.0)
        return bins.corners(tf.cast(boxes, self.sum_dtype), levels, pieces, self._bins)

    def _pixels(self, mesh: ShardMeshImpl) -> list[int]:
        """Returns the number of pixels in a slice of each map."""
        return [math.prod(mesh.slice_shape(shape)[:3]) for shape in self._maps]

    def crops_size(self, mesh: ShardMeshImpl) -> int:
        """Returns the number of values in the crops that a processor computes."""
        return math.prod(self._division(mesh).crops_shape())

    def flops(self, mesh: ShardMeshImpl) -> int:
        """Returns the multiplications and additions of one processor."""
        return 2 * _CORNERS * self.crops_size(mesh)

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        dim = self.inputs[-2].shape.dims[-1]
        rule = rules.get(dim.name, "")
        if mesh_sizes.get(rule, 1) == 1:
            return []
        title = f"{self.kind} '{self.name}'"
        return [
            cannot_split(title, dim, rule, mesh_sizes[rule], "the operation needs all coordinates of a box at once")
        ]


class RoiAlign(_BoxOperation):
    """Samples the features of boxes. Inputs: a map for each level, the boxes, and the level of each box."""

    kind = "roi_align"

    def __init__(
        self,
        features: Sequence[mtf.Tensor],
        boxes: mtf.Tensor,
        levels: mtf.Tensor,
        strides: Sequence[int],
        crops: mtf.Shape,
        aligned: bool,
        name: str | None = None,
    ) -> None:
        maps = [x.shape for x in features]
        super().__init__([*features, boxes, levels], maps, crops, strides, aligned, name or self.kind)
        self._outputs = [mtf.Tensor(self, crops, features[0].dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        boxes, levels = self.inputs[-2:]
        dx = RoiAlignGrad(grad_ys[0], boxes, levels, self._strides, self._maps, self._aligned)
        return [*dx.outputs, None, None]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        division = self._division(mesh)
        maps, pixels = [lowering.tensors[x].to_laid_out_tensor() for x in self.inputs[:-2]], self._pixels(mesh)
        starts = _offsets([x.stack_size * number for x, number in zip(maps, pixels, strict=True)])
        steps = [number if x.stack_size > 1 else 0 for x, number in zip(maps, pixels, strict=True)]

        def local(boxes: tf.Tensor, levels: tf.Tensor, extents: tf.Tensor, *maps: tf.Tensor) -> tf.Tensor:
            samples = self._samples(mesh, boxes, levels, extents, starts, steps)
            return bins.weighted_sum(tf.concat([tf.reshape(x, [-1, x.shape[-1]]) for x in maps], 0), samples)

        y = mesh.map_stacks(local, *self._boxes(lowering, division), division.extents(counted_once=True), *maps)
        if division.summed:
            y = mesh.allreduce(y, division.summed, "SUM")
        y = mesh.map_stacks(lambda y: tf.cast(y, self.outputs[0].dtype), y)
        lowering.set_tensor_lowering(self.outputs[0], tails.scatter(mesh, y, division.gathered))

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        division = self._division(mesh)
        sums = sum_over(division.summed, division.crops_shape(), self.sum_dtype.size)
        return division.box_exchanges(self.inputs[-2:]) + sums


class RoiAlignGrad(_BoxOperation):
    """The gradients of the maps. Inputs: the gradient of the crops, the boxes, and the level of each box."""

    kind = "roi_align_dx"

    def __init__(
        self,
        dy: mtf.Tensor,
        boxes: mtf.Tensor,
        levels: mtf.Tensor,
        strides: Sequence[int],
        maps: Sequence[mtf.Shape],
        aligned: bool,
    ) -> None:
        super().__init__([dy, boxes, levels], maps, dy.shape, strides, aligned, self.kind)
        self._outputs = [mtf.Tensor(self, shape, dy.dtype, index=i) for i, shape in enumerate(maps)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
        boxes, levels = self.inputs[-2:]
        maps = [mtf.zeros_like(x) if g is None else g for x, g in zip(self.outputs, grad_ys, strict=True)]
        return [RoiAlign(maps, boxes, levels, self._strides, self._crops, self._aligned).outputs[0], None, None]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        division = self._division(mesh)
        n, pixels, crops = division.num_slices, self._pixels(mesh), dict(enumerate(self._crops.to_integer_list))
        dy = tails.gather(mesh, lowering.masked(self.inputs[0]), division.gathered, crops)

        def local(dy: tf.Tensor, boxes: tf.Tensor, levels: tf.Tensor, extents: tf.Tensor) -> tf.Tensor:
            samples = self._samples(mesh, boxes, levels, extents, _offsets(pixels), [sum(pixels)] * len(pixels))
            dy = tf.broadcast_to(tf.cast(dy, self.sum_dtype), [n, *dy.shape[1:]])
            return tf.reshape(bins.scattered_sum(dy, samples, n * sum(pixels)), [n, -1])

        dx = mesh.map_stacks(local, dy, *self._boxes(lowering, division), division.extents(counted_once=False))
        if division.over_rois is not None:
            dx = mesh.allreduce(dx, [division.over_rois], "SUM")

        shapes = [mesh.slice_shape(shape) for shape in self._maps]

        def divided(dx: tf.Tensor) -> tuple[tf.Tensor, ...]:
            parts = tf.split(tf.cast(dx, self.outputs[0].dtype), [math.prod(shape) for shape in shapes], 1)
            return tuple(tf.reshape(part, [-1, *shape]) for part, shape in zip(parts, shapes, strict=True))

        for tensor, value in zip(self.outputs, mesh.map_stacks(divided, dx), strict=True):
            lowering.set_tensor_lowering(tensor, value)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        division, dy = self._division(mesh), self.inputs[0]
        rounds = division.box_exchanges(self.inputs[-2:])
        if division.gathered:
            nbytes = math.prod(mesh.slice_shape(dy.shape)) * dy.dtype.size
            rounds.append(Round([Exchange("gather", tuple(sorted(division.gathered)), nbytes)]))
        axes = [] if division.over_rois is None else [division.over_rois]
        elements = sum(math.prod(mesh.slice_shape(shape)) for shape in self._maps)
        return rounds + sum_over(axes, [elements], self.sum_dtype.size)


def roi_align(
    features: Sequence[mtf.Tensor],
    boxes: mtf.Tensor,
    levels: mtf.Tensor,
    strides: Sequence[int],
    size: Ints,
    name: str | None = None,
    aligned: bool = True,
) -> mtf.Tensor:
    """Samples the features of boxes (RoIAlign, He et al. 2017, arXiv:1703.06870).

    Each box is divided into bins. The value of a bin is the bilinear interpolation of the features at its center. Pixel
    i of a level has its center at `(i + 1/2) stride`, in pixels of the image, or at `i stride` with `aligned=False`.
    Positions beyond the centers of the border pixels are moved to them.

    Every dimension but `coords` may be split; all slices may have any size. Each processor sums over the pixels of its
    own slices, and the sums of the crops are added over the mesh dimensions that split the height or the width. The
    features are not gathered. If one of these mesh dimensions also splits the RoIs, their boxes are gathered. Name the
    dimension "rois_whole" to avoid that, and split the result with `scatter_slices(y, "rois")`.

    The weights and the sums have at least the precision of float32. The gradient flows to the features only; each
    processor adds to its own slices. It is summed over a mesh dimension that splits the RoIs and not the features.

    Args:
      features: Tensor[batch, height, width, channels] for each level. Sizes and names of height and width may differ.
      boxes: Tensor[batch, rois, coords], with the coordinates y0, x0, y1, x1 in pixels of the image.
      levels: int32 Tensor[batch, rois], the index in `features` of each box's level. Smaller numbers select the first
          level, larger numbers the last.
      strides: pixels of the image for each pixel of a level, for each level.
      size: the number of bins along y and along x: an int for both, or a pair.
      name: name of the operation.
      aligned: whether the centers of pixels are half a pixel from the border of the image. `False` is the convention of
          the TensorFlow Model Garden.

    Returns:
      Tensor[batch, rois, crop_height, crop_width, channels] with the dtype of the features.

    Raises:
      ShapeError: the shapes or dtypes of the features, the boxes and the levels do not fit.
    """
    title = f"roi_align '{name or 'roi_align'}'"
    sizes = per_dimension(title, "size", size, 2)
    _check_features(title, features, strides)
    batch, channels = features[0].shape.dims[0], features[0].shape.dims[-1]
    if len(boxes.shape.dims) != 3 or boxes.shape.dims[0] != batch or boxes.shape.dims[2].size != 4:
        raise ShapeError(
            f"{title}: boxes must have the dimensions batch, rois and 4 coordinates, with the batch of the features, "
            f"but the boxes have {boxes.shape} and the features {features[0].shape}"
        )
    if levels.shape.dims != boxes.shape.dims[:2] or not levels.dtype.is_integer or not boxes.dtype.is_floating:
        raise ShapeError(
            f"{title}: there must be a floating-point box and an integer level for each RoI, but the boxes have "
            f"{boxes.shape} of {boxes.dtype.name} and the levels {levels.shape} of {levels.dtype.name}"
        )
    if min(sizes) < 1:
        raise ShapeError(f"{title}: size must be at least 1 bin along y and along x, not {size}")
    rows, columns = mtf.Dimension("crop_height", sizes[0]), mtf.Dimension("crop_width", sizes[1])
    crops = mtf.Shape([batch, boxes.shape.dims[1], rows, columns, channels])
    return RoiAlign(features, boxes, levels, strides, crops, aligned, name).outputs[0]


def _check_features(title: str, features: Sequence[mtf.Tensor], strides: Sequence[int]) -> None:
    if not features or len(features) != len(strides) or min(strides) <= 0:
        raise ShapeError(
            f"{title}: there must be at least one level, and a positive stride for each, but there are "
            f"{len(features)} levels and the strides {list(strides)}"
        )
    first = features[0]
    for x in features:
        dims = x.shape.dims
        if len(dims) != 4 or (dims[0], dims[-1]) != (first.shape.dims[0], first.shape.dims[-1]):
            raise ShapeError(
                f"{title}: all levels must have the dimensions batch, height, width and channels, with the same batch "
                f"and channels, but they have {' and '.join(str(each.shape) for each in (first, x))}"
            )
        if x.dtype != first.dtype or not x.dtype.is_floating:
            raise ShapeError(
                f"{title}: all levels must have the same floating-point dtype, not {first.dtype.name} and "
                f"{x.dtype.name}"
            )
