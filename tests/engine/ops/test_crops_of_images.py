"""Operations of detectors on Tensor[batch, rois, height, width, channels], and functions of whole, unsplit tensors."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.harness import Case, check

mtf = mi.mtf
CROPS = "batch:2,rois:5,height:7,width:6,channels:4"
LAYOUTS = [
    ("rows:2,cols:2", "rois:rows,batch:cols"),
    ("rows:4,cols:3", "rois:rows,width:cols"),  # slices of 2, 2, 1 and 0 crops
    ("rows:3,cols:5", "height:rows,width:cols"),
    ("rows:3,model:3", "rois:rows,channels:model"),
]


def _folded(fn):
    """Returns a function of crops that calls `fn` on the crops of all images as one batch."""

    def of_crops(x, *others):
        y = fn(tf.reshape(x, [-1, *x.shape[2:]]), *others)
        return tf.reshape(y, [*x.shape[:2], *y.shape[1:]])

    return of_crops


def _transposed(x, f):
    return tf.nn.conv2d_transpose(x, f, [10, 14, 12, 2], 2, "SAME")


def _gathered(x, f, bias):
    """Computes the heads of a detector on RoIs that another layout splits."""
    y = mi.ops.scatter_slices(mtf.rename_dimension(mtf.square(x), "rois", "rois_whole"), "rois")
    y = mi.ops.leaky_relu(mi.ops.add_bias(mi.ops.conv2d(y, f), bias), 0)
    return mi.ops.gather_slices(y, "rois")


FILTER, BIAS = "fy:3,fx:3,channels:4,filters:2", "filters:2"
CASES = [
    Case(
        "conv2d of crops",
        lambda x, f: mi.ops.conv2d(x, f),
        _folded(lambda x, f: tf.nn.conv2d(x, f, 1, "SAME")),
        {"x": CROPS, "f": FILTER},
    ),
    Case(
        "strided conv2d of crops",
        lambda x, f: mi.ops.conv2d(x, f, 2),
        _folded(lambda x, f: tf.nn.conv2d(x, f, 2, "SAME")),
        {"x": CROPS, "f": FILTER},
    ),
    Case(
        "conv2d_transpose of crops",
        lambda x, f: mi.ops.conv2d_transpose(x, f, 2),
        _folded(_transposed),
        {"x": CROPS, "f": "fy:2,fx:2,filters:2,channels:4"},
    ),
    Case("bias of crops", mi.ops.add_bias, tf.nn.bias_add, {"x": CROPS, "bias": "channels:4"}),
    Case(
        "head of split crops",
        _gathered,
        _folded(lambda x, f, bias: tf.nn.relu(tf.nn.conv2d(x * x, f, 1, "SAME") + bias)),
        {"x": CROPS, "f": FILTER, "bias": BIAS},
    ),
    Case(
        "resize of crops",
        lambda x: mi.ops.resize2d(x, (13, 12), "repeat"),
        _folded(lambda x: tf.repeat(tf.repeat(x, 2, 1)[:, :13], 2, 2)),
        {"x": CROPS},
    ),
]


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("impl", ["stacked", "placement"])
@pytest.mark.parametrize("split", LAYOUTS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_crops_under_a_layout_equal_the_whole(case, split, impl):
    check(case, "float64", *split, impl)


@pytest.mark.parametrize("sizes", [(13, 9), (14, 10), (7, 5)])
def test_a_repeated_map_has_each_pixel_at_half_its_index(sizes):
    """Feature pyramids add a level to the next finer one, which has twice as many pixels or one less."""
    x = np.random.default_rng(0).standard_normal((1, 7, 5, 2))
    specs = {"x": ("batch:1,height:7,width:5,channels:2", "float64")}
    program = mi.Program(
        lambda x: mi.ops.resize2d(x, sizes, "repeat"), specs, "rows:4,cols:3", "height:rows,width:cols"
    )
    rows, columns = (np.arange(new) // -(-new // old) for new, old in zip(sizes, (7, 5), strict=True))
    np.testing.assert_array_equal(program(x=x), x[:, rows][:, :, columns])


def _suppress(boxes, scores):
    """Returns the kept boxes, their scores, and how many there are, by TensorFlow's non-maximum suppression."""
    indices, number = tf.image.non_max_suppression_padded(
        boxes, scores, 4, 0.5, pad_to_max_output_size=True, sorted_input=True, canonicalized_coordinates=True
    )
    kept = tf.range(4) < number[:, tf.newaxis]
    indices = tf.where(kept, indices, 0)
    boxes = tf.where(kept[..., tf.newaxis], tf.gather(boxes, indices, batch_dims=1), 0)
    return boxes, tf.where(kept, tf.gather(scores, indices, batch_dims=1), 0), tf.where(kept, indices, -1), number


@pytest.mark.mostly_slow(fast=0.15)
@pytest.mark.parametrize("impl", ["stacked", "placement"])
@pytest.mark.parametrize(
    ("mesh", "layout"),
    [("cores:3", "batch:cores"), ("cores:2,rows:2", "batch:cores,x:rows"), ("cores:4", "batch:cores")],
)
def test_a_function_with_several_results_of_whole_examples(mesh, layout, impl):
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 4, (3, 8, 2)).astype(np.float32)
    boxes = np.concatenate([low, low + 3], -1)
    scores = -np.sort(-rng.uniform(0, 1, (3, 8)).astype(np.float32), axis=-1)
    image = rng.standard_normal((3, 4)).astype(np.float32)

    def fn(boxes, scores, image):
        batch, four, coords = boxes.shape.dims[0], mtf.Dimension("kept", 4), boxes.shape.dims[2]
        shapes = [mtf.Shape(dims) for dims in ([batch, four, coords], [batch, four], [batch, four], [batch])]
        dtypes = [tf.float32, tf.float32, tf.int32, tf.int32]
        results = mtf.slicewise(_suppress, [boxes, scores], shapes, dtypes, [batch])
        return *results, mtf.reduce_sum(results[1]) + mtf.reduce_sum(image)

    specs = {"boxes": "batch:3,boxes:8,coords:4", "scores": "batch:3,boxes:8", "image": "batch:3,x:4"}
    *results, total = mi.Program(fn, specs, mesh, layout, impl)(boxes=boxes, scores=scores, image=image)
    expected = _suppress(boxes, scores)
    assert 0 < int(tf.reduce_min(expected[-1])) <= int(tf.reduce_max(expected[-1])) <= 4
    for value, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)
    np.testing.assert_allclose(total, np.sum(expected[1]) + image.sum(), rtol=1e-5)


MATCHED = {
    "quality": ("batch:3,height:5,width:7,anchors:2,boxes:4", "float64"),
    "boxes": ("batch:3,boxes:4,coords:4", "float64"),
}


def _match(quality, boxes):
    """Returns the best box of each anchor, the first best anchor of each box, and extreme values."""
    batch, *anchors, box = quality.shape.dims
    best = mtf.argmax(quality, box)
    of_boxes = mtf.Shape([batch, box])
    most = mtf.reduce_max(quality, output_shape=of_boxes)
    place = mtf.zeros(quality.mesh, mtf.Shape(anchors), tf.int32)
    for dim in anchors:
        place = place * dim.size + mtf.range(quality.mesh, dim, tf.int32)
    is_best = mtf.equal(quality, most)
    numbers = mtf.where(
        is_best, mtf.broadcast(place, quality.shape), mtf.constant(quality.mesh, 999, quality.shape, tf.int32)
    )
    first = mtf.reduce_min(numbers, output_shape=of_boxes)
    chosen = mtf.reduce_any(mtf.equal(place, first, output_shape=quality.shape), reduced_dim=box)
    return {
        "best": best,
        "first": first,
        "chosen": chosen,
        "coordinates": mtf.gather(boxes, best, box),
        "one_hot": mtf.one_hot(best, box, dtype=tf.float64),
        "least": mtf.reduce_min(quality, output_shape=of_boxes),
    }


@pytest.mark.parametrize(
    ("mesh", "layout"),
    [
        ("rows:2,cols:2", "height:rows,width:cols"),
        ("rows:4,cols:5", "height:rows,width:cols"),
        ("cores:2,cols:3", "batch:cores,width:cols"),
    ],
)
def test_the_best_anchor_and_the_best_box_under_a_layout_equal_those_of_numpy(mesh, layout):
    rng = np.random.default_rng(0)
    quality, boxes = rng.integers(-9, -3, (3, 5, 7, 2, 4)).astype(float), rng.standard_normal((3, 4, 4))  # many ties
    found = mi.Program(_match, MATCHED, mesh, layout)(quality=quality, boxes=boxes)
    best, flat = quality.argmax(-1), quality.reshape(3, -1, 4)
    first, chosen = flat.argmax(1), np.zeros([3, 70], bool)
    np.put_along_axis(chosen, first, True, 1)
    expected = {
        "best": best,
        "first": first,
        "chosen": chosen.reshape(best.shape),
        "coordinates": np.take_along_axis(boxes, best.reshape(3, -1, 1), 1).reshape(*best.shape, 4),
        "one_hot": np.eye(4)[best],
        "least": flat.min(1),
    }
    for name, wanted in expected.items():
        np.testing.assert_array_equal(found[name], wanted, err_msg=name)
