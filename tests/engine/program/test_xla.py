"""Programs that XLA compiles compute the same as others, and clear errors if it cannot compile one."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
SHAPE = "batch:2,x:7,y:4,channels:2"
SLABS = {"mesh_shape": "slabs:2", "layout": "x:slabs"}


def _step(image):
    """Runs one step of gradient descent on a convolution before a dropout; returns the loss before the step."""
    y = mi.layers.Conv(3, name="conv")(image)
    loss = mtf.reduce_mean(mtf.square(mi.ops.dropout(mi.ops.leaky_relu(y), 0.5)))
    for variable in image.mesh.graph.trainable_variables:
        (gradient,) = mtf.gradients([loss], [variable.value])
        mtf.assign_sub(variable, 0.1 * gradient)
    return {"loss": loss, "y": y}


def _image():
    return np.random.default_rng(1).standard_normal([2, 7, 4, 2]).astype(np.float32)


@pytest.mark.parametrize(
    ("mesh", "layout", "options"),
    [
        ("", "", {}),
        ("rows:2,cols:2", "x:rows,y:cols", {}),
        ("rows:3", "x:rows", {"devices": ["CPU:1"]}),
        ("cores:2", "batch:cores", {"mesh_impl": "placement", "devices": ["CPU:0"]}),
    ],
)
def test_steps_equal_those_of_tensorflow(mesh, layout, options):
    runs = []
    for xla in (False, True):
        p = mi.Program(_step, {"image": SHAPE}, mesh, layout, xla=xla, **{"mesh_impl": "stacked", **options})
        runs.append([p(image=_image()) for _ in range(3)])
        assert p.function.function_def.attr["_XlaMustCompile"].b == xla
        assert int(p.step) == 3
    tf.nest.map_structure(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), *runs)


def test_micro_batches_draw_the_values_of_the_batch():
    def masks(image):
        return mi.ops.dropout(mtf.ones_like(image), 0.5)

    whole = mi.Program(masks, {"image": SHAPE})(image=_image())
    part = mi.Program(masks, {"image": SHAPE.replace("batch:2", "batch:1")}, part_of=("batch", 2), xla=True)
    parts = [part.call_part(index, image=_image()[index : index + 1]) for index in range(2)]
    np.testing.assert_array_equal(tf.concat(parts, 0), whole)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mesh_impl": "placement"}, "2 devices"),
        ({"mesh_impl": "stacked", "sequential": "slabs"}, "processors that take turns"),
    ],
)
def test_a_program_of_more_than_one_device_or_turn_is_refused(options, what):
    fault = f"xla compiles a program for one device .* but the program has {what}. Fix: leave xla out"
    with pytest.raises(mi.NotSupportedError, match=fault) as error:
        mi.Program(_step, {"image": SHAPE}, **SLABS, **options, xla=True)
    assert error.value.settings == ("xla", "mesh_impl", "sequential")


def test_an_operation_that_xla_cannot_compile_is_named():
    def text(image):
        return mtf.slicewise(lambda x: tf.strings.length(tf.strings.as_string(x)), [image], output_dtype=tf.int32)

    p = mi.Program(text, {"image": SHAPE}, xla=True)
    with pytest.raises(mi.NotSupportedError, match=r"XLA cannot compile the program: .*AsString.* Fix: leave xla out"):
        p(image=_image())
