"""RoIAlign under all layouts equals a product of whole maps with dense matrices of weights."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

import mtf_imaging as mi
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.program.tracing import trace_only
from tests.engine.exchanges import check_exchanges, stacked_mesh
from tests.engine.harness import TOLERANCES, check, difference, pairwise
from tests.engine.ops import sampled_boxes
from tests.engine.ops.sampled_boxes import CASES

mtf = mi.mtf
LAYOUTS = [
    ("", ""),
    ("rows:2", "height:rows"),
    ("rows:2,cols:2", "height:rows,width:cols"),
    ("rows:5,cols:4", "height:rows,width:cols"),  # the last slices are shorter or empty
    ("rows:2,cores:2", "height:rows,batch:cores"),
    ("cores:3,cols:2", "batch:cores,width:cols"),
    ("rows:2,model:2", "height:rows,channels:model"),
    ("rows:2,cols:3", "height:rows,rois_whole:cols"),
    ("rows:2", "height:rows,rois_whole:rows"),
    ("rows:4,cols:2", "height:rows,width:cols,rois_whole:rows"),
    ("rows:3", "rois_whole:rows"),
    ("spare:2,rows:2,cols:3", "height:rows,crop_height:cols,crop_width:rows"),
]
OF_GATHERED = [("rows:2,cols:2", "height:rows,width_whole:cols"), ("rows:2,cols:2", "height:rows,height_whole:cols")]
ROWS = pairwise(itertools.product(CASES[:2], LAYOUTS, ["stacked", "placement"]))
ROWS += [(CASES[0], layout, impl) for layout, impl in zip(OF_GATHERED, ["stacked", "placement"])]


@pytest.mark.mostly_slow(fast=0.12)
@pytest.mark.parametrize(("case", "split", "impl"), ROWS, ids=str)
def test_equals_the_whole(case, split, impl):
    check(case, "float64", *split, impl)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_dtypes(dtype):
    check(CASES[2], dtype, "rows:3,cols:2", "height:rows,width:cols", "stacked")


def test_the_weights_of_bfloat16_are_not_rounded():
    """Interpolates between two neighbors at a position that bfloat16 cannot represent."""
    features = tf.constant(np.arange(64).reshape(1, 64, 1, 1) % 2, tf.bfloat16)
    boxes = np.array([[[0, 0, 2 * (40 + 0.5 + 1 / 64), 1]]], np.float32)

    def fn(features, boxes):
        return mi.ops.roi_align([features], boxes, mtf.zeros(boxes.mesh, boxes.shape.dims[:2], tf.int32), [1], 1)

    specs = {"features": ("batch:1,height:64,width:1,channels:1", "bfloat16"), "boxes": "batch:1,rois:1,coords:4"}
    y = mi.Program(fn, specs, "rows:4", "height:rows")(features=features, boxes=boxes)
    assert float(y[0, 0, 0, 0, 0]) == 1 / 64


@pytest.mark.slow
@settings(max_examples=15)
@given(sampled_boxes.any_case())
def test_any_size(drawn):
    case, mesh, layout = drawn
    check(case, "float64", mesh, layout, "stacked")


@settings(max_examples=3)
@given(sampled_boxes.any_case())
def test_a_few_sizes(drawn):
    case, mesh, layout = drawn
    check(case, "float64", mesh, layout, "stacked")


@pytest.mark.parametrize("size", [2, 5])
def test_equals_crop_and_resize_inside_of_the_image(size):
    """`crop_and_resize` has its first and last sample on the borders of its box."""
    rng, stride, height, width = np.random.default_rng(0), 4, 11, 8
    features = rng.standard_normal((2, height, width, 3)).astype(np.float32)
    low = rng.uniform(stride, 10, (2, 6, 2))
    boxes = np.concatenate([low, low + rng.uniform(3, 16, low.shape)], -1)
    half = (boxes[..., 2:] - boxes[..., :2]) / size / 2
    samples = np.concatenate([boxes[..., :2] + half, boxes[..., 2:] - half], -1) / stride - 0.5
    samples /= [height - 1, width - 1] * 2
    images = np.repeat(np.arange(2), 6)
    expected = tf.image.crop_and_resize(features, samples.reshape(-1, 4), images, [size, size])

    def fn(features, boxes, levels):
        return mi.ops.roi_align([features], boxes, levels, [stride], size)

    specs = {
        "features": "batch:2,height:11,width:8,channels:3",
        "boxes": "batch:2,rois:6,coords:4",
        "levels": ("batch:2,rois:6", "int32"),
    }
    program = mi.Program(fn, specs, "rows:3,cols:2", "height:rows,width:cols")
    crops = program(features=features, boxes=boxes, levels=np.zeros([2, 6], np.int32)).numpy()
    assert difference(crops.reshape(expected.shape), expected.numpy()) < TOLERANCES["float32"]


def test_features_are_not_gathered():
    """Processors send only sums of crops, and nothing in the backward pass."""
    case = CASES[1]

    def fn(boxes, levels, **maps):
        y = case.fn(boxes=boxes, levels=levels, **maps)
        return mtf.gradients([mtf.reduce_sum(mtf.stop_gradient(y) * y)], list(maps.values()))

    specs = {key: (shape, "int32" if key in case.labels else "float32") for key, shape in case.shapes.items()}
    program = mi.Program(fn, specs, "rows:2,cols:2", "height:rows,width:cols", "stacked")
    check_exchanges(program, fn, specs)
    assert program.mesh_impl.exchanged == [Exchange("sum", (0, 1), 2 * 7 * 3 * 3 * 3 * tf.float64.size)]


@pytest.mark.parametrize("layout", ["", "height:rows,width:cols"])
@pytest.mark.parametrize(("pixel", "reached"), [((3, 4), 2), ((0, 0), 0)], ids=str)
def test_a_value_that_is_not_a_number_reaches_only_the_samples_around_it(layout, pixel, reached):
    features, nan = np.zeros((1, 8, 8, 1), np.float32), np.nan
    features[(0, *pixel)] = nan
    boxes = np.array([[[0, 0, 8, 8], [2.5, 4, 4.5, 5], [2, 2, 3, 3], [4, 5, 6, 7]]], np.float32)

    def fn(features, boxes):
        return mi.ops.roi_align([features], boxes, mtf.zeros(boxes.mesh, boxes.shape.dims[:2], tf.int32), [1], 1)

    specs = {"features": "batch:1,height:8,width:8,channels:1", "boxes": "batch:1,rois:4,coords:4"}
    y = mi.Program(fn, specs, "rows:3,cols:5", layout)(features=features, boxes=boxes)
    np.testing.assert_array_equal(y.numpy().ravel(), [nan] * reached + [0] * (4 - reached))


def test_boxes_and_levels_without_meaning_change_no_other_crop():
    case = CASES[1]
    boxes = np.tile([10.0, 10, 18, 18], (2, 7, 1))
    boxes[:, 3], boxes[:, 4] = np.nan, [-1e30, 0, 1e30, 1e30]
    levels = np.array([[0, 0, 0, 0, 0, -5, 99]] * 2, np.int32)
    features = case.values()["level0"]

    def fn(level0, boxes, levels):
        y = mi.ops.roi_align([level0], boxes, levels, [4], 3)
        return y, mtf.gradients([mtf.reduce_sum(y)], [level0])[0]

    specs = {"boxes": (case.shapes["boxes"], "float64"), "levels": (case.shapes["levels"], "int32")}
    specs["level0"] = (case.shapes["level0"], "float64")
    for split in [("", ""), ("rows:2,cols:3", "height:rows,width:cols")]:
        y, dx = mi.Program(fn, specs, *split)(level0=features, boxes=boxes, levels=levels)
        whole = sampled_boxes.reference([tf.constant(features)], boxes[:, :1], levels[:, :1], [4], 3)
        for roi in (0, 1, 2, 5, 6):
            np.testing.assert_allclose(y[:, roi], whole[:, 0], rtol=1e-12)
        assert dx.shape == features.shape


def test_it_can_be_recomputed_and_differentiated_by_some_levels():
    case = CASES[0]
    specs = {key: (shape, "int32" if key in case.labels else "float64") for key, shape in case.shapes.items()}

    def gradient(run):
        def fn(boxes, levels, **maps):
            squares = [mtf.square(x) for x in maps.values()]
            y = run(lambda *maps: mtf.square(mi.ops.roi_align(maps, boxes_of(boxes), levels, (4, 8, 16), 2)), *squares)
            return mtf.gradients([mtf.reduce_sum(y)], [maps["level1"]])[0]

        def boxes_of(boxes):
            return mtf.cast(boxes, tf.float64) / 8

        return mi.Program(fn, specs, "rows:2,cols:2", "height:rows,width:cols")(**case.values())

    kept = gradient(lambda fn, *maps: fn(*maps))
    assert np.abs(kept).max() > 0
    np.testing.assert_allclose(gradient(mi.ops.recompute), kept, rtol=1e-12)


def traced():
    """Returns the operation of a case."""

    def fn(boxes, levels, **maps):
        return CASES[1].fn(boxes=boxes, levels=levels, **maps)

    shapes = CASES[1].shapes
    specs = {key: (shape, "int32" if key in CASES[1].labels else "float32") for key, shape in shapes.items()}
    (op,) = [op for op in trace_only(fn, specs).needed if type(op).__name__ == "RoiAlign"]
    return op


# (mesh, layout, rows of the map, RoIs, RoIs after the split) of a processor
SHARES = [
    ("rows:1", "", 12, 7, 7),
    ("rows:4", "height:rows", 3, 7, 7),
    ("rows:4", "height:rows,rois_whole:rows", 3, 7, 2),  # all samples are summed before they are split
    ("rows:4", "rois_whole:rows", 12, 2, 2),
]


@pytest.mark.parametrize(("mesh", "layout", "height", "rois", "own"), SHARES)
def test_its_cost_is_that_of_four_pixels_a_sample(mesh, layout, height, rois, own):
    assert traced().flops(stacked_mesh(mesh, layout)) == 8 * 2 * rois * 3 * 3 * 3


FEATURES, OTHER, BOXES, LEVELS = (
    "batch:2,height:8,width:8,channels:3",
    "batch:2,height:4,width:4,channels:2",
    "batch:2,rois:5,coords:4",
    "batch:2,rois:5",
)


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([], boxes, levels, [], 2),
            "at least one level, and a positive stride for each, but there are 0 levels and the strides []",
        ),
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([x], boxes, levels, [4, 8], 2),
            "there are 1 levels and the strides [4, 8]",
        ),
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([x, other], boxes, levels, [4, 8], 2, "crops"),
            "roi_align 'crops': all levels must have the dimensions batch, height, width and channels",
        ),
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([x, mtf.cast(x, tf.bfloat16)], boxes, levels, [4, 8], 2),
            "all levels must have the same floating-point dtype, not float32 and bfloat16",
        ),
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([x], x, levels, [4], 2),
            "boxes must have the dimensions batch, rois and 4 coordinates",
        ),
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([x], boxes, mtf.cast(levels, tf.float32), [4], 2),
            "a floating-point box and an integer level for each RoI",
        ),
        (
            lambda x, other, boxes, levels: mi.ops.roi_align([x], boxes, levels, [4], (2, 0)),
            "size must be at least 1 bin along y and along x, not (2, 0)",
        ),
    ],
)
def test_mistakes(fn, text):
    with pytest.raises(mi.ShapeError) as error:
        mi.Program(fn, {"x": FEATURES, "other": OTHER, "boxes": BOXES, "levels": (LEVELS, "int32")})
    assert text in str(error.value)


def test_split_coordinates_are_refused():
    def fn(x, boxes, levels):
        return mi.ops.roi_align([x], boxes, levels, [4], 2)

    with pytest.raises(mi.LayoutError, match=r"roi_align 'roi_align': cannot split 'coords' \(size 4\) over 'rows'"):
        mi.Program(fn, {"x": FEATURES, "boxes": BOXES, "levels": (LEVELS, "int32")}, "rows:2", "coords:rows")
