"""The heads of Mask R-CNN equal plain TensorFlow, and the results of the network do not depend on the layout."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.head_layers import HeadLayers
from mtf_imaging.models.detection.roi_heads import BoxHead, MaskHead
from mtf_imaging.models.detection.rpn import RPNHead
from mtf_imaging.models.resnet import ResNetBackbone
from mtf_imaging.training.gradients import training_step
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from tests.models.programs import assert_equal, enlarge, instance_batch, train_program, values
from tests.models.programs import mask_rcnn_task as small_task

SIZES = (33, 22)  # maps of 9 x 6, 5 x 3 and 3 x 2 pixels
RESNET = ResNetBackbone(blocks=(1, 1), bottleneck=False, base_filters=2, norm_momentum=0.5)
QUADRANTS = "rows:2,cols:2", "height:rows,width:cols"


def results(task, *layout, **options):
    return values(task, instance_batch(task, SIZES), *layout, **options)


@functools.cache
def whole():
    return results(small_task())[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh_shape", "layout", "mesh_impl"),
    [
        (*QUADRANTS, "stacked"),
        ("rows:4,cols:2", "height:rows,width:cols,rois:rows", "stacked"),
        ("rows:8", "height:rows", "stacked"),
        ("rows:2,cols:2", "batch:rows,height:cols,rois:cols", "stacked"),
        ("rows:2,cols:2", "height:rows,rois:cols", "placement"),
    ],
)
def test_results_do_not_depend_on_the_layout(mesh_shape, layout, mesh_impl):
    want = whole()
    assert set(np.ravel(want["evaluation"]["classes"])) - {-1}, "the test needs detections"
    assert all(want["train"][f"{part}_loss"] > 0 for part in ("rpn_score", "rpn_box", "class", "box", "mask"))
    assert_equal(results(small_task(), mesh_shape, layout, mesh_impl=mesh_impl)[0], want)


@pytest.mark.slow
def test_norms_gathered_levels_and_recomputation():
    """Batch norms follow all layers, and the levels of 5 x 3 pixels and less are gathered."""
    want = results(small_task(backbone=RESNET, norm=True), evaluates=False)[0]
    backbone = dataclasses.replace(RESNET, recompute=True)
    task = small_task(backbone=backbone, norm=True, gather_below=3)
    got, _, program = results(task, *QUADRANTS, evaluates=False)
    assert_equal(got, want)
    assert any("level3" in change.name and change.gathered for change in program.changes)
    assert {"resnet/stem_norm/moving_mean", "box_head/dense1/norm/moving_mean"} < got["moving"].keys()
    assert "box_head/dense1/bias" not in got["train"]


def train(count, batch_size=4, steps=2, **options):
    """Trains in `count` micro-batches; returns the losses and the weights."""
    task = small_task()
    inputs, optimizer = task.inputs(batch_size, SIZES, tf.float64), SGD(0.1)
    if count == 1:
        program = step = mi.Program(training_step(task, optimizer), inputs, seed=3, **options)
    else:
        step = MicroBatches(task, optimizer, part_inputs(inputs, count), count, seed=3, **options)
        program = step.program
    enlarge(program)
    rows = []
    for number in range(steps):
        given = instance_batch(task, SIZES, batch_size, seed=number)
        split = {name: np.split(value, count) for name, value in given.items()}
        parts = [{name: value[i] for name, value in split.items()} for i in range(count)]
        result = step(**given) if count == 1 else step(parts=parts)
        rows.append({name: value.numpy() for name, value in result.items()})
    return {"losses": {f"{name} {i}": row[name] for i, row in enumerate(rows) for name in row}} | {
        "weights": {name: v.numpy() for name, v in program.variables.items()}
    }


@pytest.mark.slow
def test_micro_batches_train_like_the_whole_batch():
    assert_equal(train(2), train(1))


@pytest.mark.slow
def test_frozen_norms():
    frozen = small_task(backbone=RESNET, train_norms=False)
    got, _, program = results(frozen, evaluates=False)
    norms = {name for name in program.variables if name.startswith("resnet/") and "_norm/" in name}
    assert {name.rpartition("/")[2] for name in norms} == {"scale", "offset", "moving_mean", "moving_variance"}
    assert not norms & got["train"].keys()
    assert {*program.frozen} == {name for name in norms if name.endswith(("/scale", "/offset"))}
    assert "resnet/stem/filter" in got["train"]
    for name in norms:
        expected = name.rpartition("/")[2] in ("scale", "moving_variance")
        np.testing.assert_array_equal(program.variables[name], np.full(2 ** (1 + ("stage1" in name)), float(expected)))

    # Recomputed activations and a split change nothing.
    backbone = dataclasses.replace(RESNET, recompute=True)
    again, *_ = results(small_task(backbone=backbone, train_norms=False), *QUADRANTS, evaluates=False)
    assert_equal(again, got)


@pytest.mark.slow
def test_bfloat16():
    """Losses and detections are float32, and close to those of float32 activations."""
    task = small_task()
    results = []
    for dtype, layout in ((tf.float32, ()), (tf.bfloat16, QUADRANTS)):
        program = train_program(task, SIZES, *layout, dtype=dtype)
        inputs = instance_batch(task, SIZES)
        result = program(**{**inputs, "image": tf.cast(inputs["image"], dtype)})
        assert {value.dtype for value in result.values()} == {tf.float32}
        results.append(result)
    # The choice of proposals may differ, which affects the losses of RoIs.
    np.testing.assert_allclose(results[1]["rpn_score_loss"], results[0]["rpn_score_loss"], rtol=3e-2)
    np.testing.assert_allclose(results[1]["loss"], results[0]["loss"], rtol=0.2)
    predict = mi.Program(task.predict, task.inputs(1, SIZES, tf.bfloat16, labels=False), variables=program)
    predicted = predict(image=tf.cast(inputs["image"][:1], tf.bfloat16))
    assert {name: value.dtype for name, value in predicted.items()} == {
        "boxes": tf.float32,
        "scores": tf.float32,
        "classes": tf.int32,
        "masks": tf.float32,
    }


@pytest.fixture(scope="module")
def head_program():
    """Programs of the three heads with norms in inference and without, as a function of `norm`."""

    @functools.cache
    def program(norm):
        def fn(fine, coarse, crops, classes):
            layers = HeadLayers(norm, False, 0.9, 1e-3)
            logits, deltas = BoxHead(layers, 5, 2, convs=1, filters=4, dense=1 if norm else 2)(crops)
            scores, boxes = RPNHead(layers, 4, 2)([fine, coarse], 3)
            return {
                "scores": scores,
                "boxes": boxes,
                "logits": logits,
                "deltas": deltas,
                "masks": MaskHead(layers, 4, 2, 2)(crops, classes),
            }

        inputs = {
            "fine": ("batch:2,height:5,width:4,channels:3", tf.float64),
            "coarse": ("batch:2,height:3,width:2,channels:3", tf.float64),
            "crops": ("batch:2,rois:3,crop_height:3,crop_width:3,channels:3", tf.float64),
            "classes": ("batch:2,rois:3", tf.int32),
        }
        return mi.Program(fn, inputs, "rows:2", "height:rows,rois:rows")

    return program


@pytest.mark.slow
@pytest.mark.parametrize("norm", [False, True])
def test_heads_equal_the_reference(head_program, norm):
    program, rng = head_program(norm), np.random.default_rng(0)
    for name, variable in program.variables.items():
        variable.assign(rng.uniform(0.5, 1.5, variable.shape) * (-1 if name.endswith("weights") else 1))
    weights = {name: v.numpy() for name, v in program.variables.items()}
    inputs = {
        "fine": rng.standard_normal((2, 5, 4, 3)),
        "coarse": rng.standard_normal((2, 3, 2, 3)),
        "crops": rng.standard_normal((2, 3, 3, 3, 3)),
        "classes": np.array([[0, 1, 2], [2, 2, 0]], np.int32),
    }
    got = tf.nest.map_structure(lambda x: x.numpy(), program(**inputs))

    def finish(x, scope, norm_name="norm"):
        if norm:
            own = {name: weights[f"{scope}/{norm_name}/{name}"] for name in ("scale", "offset")}
            mean, variance = (weights[f"{scope}/{norm_name}/moving_{name}"] for name in ("mean", "variance"))
            x = (x - mean) / np.sqrt(variance + 1e-3) * own["scale"] + own["offset"]
        else:
            x = x + weights[f"{scope}/bias"]
        return tf.nn.relu(x)

    def linear(x, scope, dims=1):
        return np.tensordot(x, weights[f"{scope}/weights"], dims) + weights[f"{scope}/bias"]

    want = {"scores": [], "boxes": []}
    for level, name in ((3, "fine"), (4, "coarse")):
        x = tf.nn.conv2d(inputs[name], weights["rpn/conv/filter"], 1, "SAME")
        x = finish(x, "rpn/conv", f"level{level}_norm")
        want["scores"].append(linear(x, "rpn/scores"))
        want["boxes"].append(linear(x, "rpn/boxes"))
    x = tf.nn.conv2d(inputs["crops"].reshape(6, 3, 3, 3), weights["box_head/conv0/filter"], 1, "SAME")
    x = finish(x, "box_head/conv0").numpy().reshape(2, 3, 3, 3, 4)
    x = finish(np.tensordot(x, weights["box_head/dense0/weights"], 3), "box_head/dense0")
    if not norm:
        x = finish(np.tensordot(x, weights["box_head/dense1/weights"], 1), "box_head/dense1")
    want["logits"], want["deltas"] = linear(x, "box_head/classes"), linear(x, "box_head/boxes")
    x = inputs["crops"].reshape(6, 3, 3, 3)
    for i in range(2):
        x = finish(tf.nn.conv2d(x, weights[f"mask_head/conv{i}/filter"], 1, "SAME"), f"mask_head/conv{i}")
    x = tf.nn.conv2d_transpose(x, weights["mask_head/upsample/filter"], (6, 6, 6, 4), 2, "SAME")
    x = linear(finish(x, "mask_head/upsample"), "mask_head/masks").reshape(2, 3, 6, 6, 3)
    want["masks"] = np.take_along_axis(x, inputs["classes"][..., None, None, None], -1)[..., 0]
    for name, value in want.items():
        for part, expected in zip(*((x if isinstance(x, list) else [x]) for x in (got[name], value))):
            np.testing.assert_allclose(part, expected, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.slow
def test_predictions_follow_the_definition():
    """The masks are those of the predicted classes and boxes, and padding has the values of the interface."""
    task = small_task(score_threshold=0.275)
    *_, train = results(task, evaluates=False)
    inputs = task.inputs(2, SIZES, tf.float64, labels=False)
    image = instance_batch(task, SIZES)["image"]
    found = mi.Program(task.predict, inputs, variables=train)(image=image)
    found = {name: value.numpy() for name, value in found.items()}
    is_padding = found["classes"] == -1
    assert is_padding.any()
    assert not is_padding.all()
    np.testing.assert_array_equal(found["scores"] > 0.275, ~is_padding)
    assert not found["boxes"][is_padding].any()
    assert not found["masks"][is_padding].any()
    assert (np.diff(found["scores"], axis=1) <= 0).all()
    low, high = found["boxes"][..., :2], found["boxes"][..., 2:]
    assert (low >= 0).all()
    assert (high <= SIZES).all()

    def masks(image, boxes, classes):
        features = task.network.with_classes(3).features(image, False)
        return mi.mtf.sigmoid(task.network.with_classes(3).masks(features, boxes, classes, False))

    specs = {
        **inputs,
        "boxes": ("batch:2,rois_whole:6,coords:4", tf.float64),
        "classes": ("batch:2,rois_whole:6", tf.int32),
    }
    given = mi.Program(masks, specs, variables=train)(image=image, boxes=found["boxes"], classes=found["classes"] + 1)
    np.testing.assert_allclose(found["masks"][~is_padding], given.numpy()[~is_padding], rtol=1e-12)
