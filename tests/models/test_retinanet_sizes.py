"""RetinaNet at the sizes of published detectors: the sizes of its levels, and split and whole results."""

import functools

import pytest

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.detection import Anchors, ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import ResNetBackbone
from tests.models.programs import assert_equal, object_batch, values

# Levels 3 to 7 of a backbone with strides up to 16. Almost all the time of these tests is spent on building graphs, so
# the network has few layers.
BACKBONE = ResNetBackbone(blocks=(1, 1, 1), base_filters=1, bottleneck=False, norm_momentum=0.5)
LAYOUTS = {
    "2x2": ("rows:2,cols:2", "height:rows,width:cols"),
    "4x2": ("rows:4,cols:2", "height:rows,width:cols"),
    "8x1": ("rows:8", "height:rows"),
}
# Sizes of levels 3 to 7, rounded up.
LEVELS = {
    (640, 640): [(80, 80), (40, 40), (20, 20), (10, 10), (5, 5)],
    (1024, 1024): [(128, 128), (64, 64), (32, 32), (16, 16), (8, 8)],
    (1280, 1280): [(160, 160), (80, 80), (40, 40), (20, 20), (10, 10)],
    (1333, 800): [(167, 100), (84, 50), (42, 25), (21, 13), (11, 7)],
    (2560, 2560): [(320, 320), (160, 160), (80, 80), (40, 40), (20, 20)],
}


def task(**kwargs):
    anchors = Anchors(scales=(8.0,), ratios=(1.0,))
    network = RetinaNet(BACKBONE, filters=2, head_convs=1, anchors=anchors, norm_momentum=0.5, **kwargs)
    return ObjectDetection(network, classes=2, max_boxes=3, score_threshold=0.0)


@pytest.mark.parametrize("sizes", LEVELS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_levels(sizes, layout):
    """A layout splits all levels, and `gather_below` gathers only those with smaller slices."""
    layout = Layout.parse(*LAYOUTS[layout])
    inputs = task().inputs(1, sizes, labels=False)
    slices = [dict(layout.mesh_shape).get(dict(layout.rules).get(name), 1) for name in ("height", "width")]
    for least in (0, 4):
        network = task(gather_below=least).network
        outputs = trace_only(lambda image, network=network: network(image, False), inputs, layout).outputs
        for (logits, _), level in zip(outputs, LEVELS[sizes], strict=True):
            dims = logits.shape.dims[1:3]
            assert tuple(dim.size for dim in dims) == level
            for dim, parts, size in zip(dims, slices, level):
                # A level is also gathered if it is computed from a gathered one; that is at least as large.
                is_small = parts > 1 and -(-size // parts) < least
                assert dim.name.endswith("_whole") == is_small


@functools.cache
def whole(sizes):
    return values(task(), object_batch(task(), sizes, 1))[0]


# Slices of level 7 of 640: 3 and 2; 2, 2, 1 and 0; and 1, 1, 1, 1, 1, 0, 0 and 0.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "layout", "gather_below"),
    [
        ((640, 640), "2x2", 0),
        ((640, 640), "4x2", 0),
        ((640, 640), "8x1", 3),
        ((1333, 800), "2x2", 0),
        ((1333, 800), "4x2", 4),
        ((1333, 800), "8x1", 0),
    ],
)
def test_sizes_of_published_detectors(sizes, layout, gather_below):
    """Compares losses, gradients, moving statistics and detections in float64."""
    own = task(gather_below=gather_below)
    got, _, program = values(own, object_batch(own, sizes, 1), *LAYOUTS[layout])
    assert bool(program.changes) == (gather_below > 0)
    assert_equal(got, whole(sizes))
