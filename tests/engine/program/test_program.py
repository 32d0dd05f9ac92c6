"""The contract of `Program`: structure, variables, the order of updates, the step, seeds, sharing and errors."""

import concurrent.futures
import logging

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
SHAPE = "batch:2,x:8,y:4,channels:2"
LAYOUTS = [("", ""), ("rows:2,cols:2", "x:rows,y:cols"), ("rows:4,cores:2", "x:rows,batch:cores")]


def _image():
    return np.random.default_rng(1).standard_normal([2, 8, 4, 2]).astype(np.float32)


def _scaled(image, name="scale", trainable=True):
    channels = mtf.Shape(image.shape.dims[-1:])
    initializer = tf.compat.v1.random_normal_initializer()
    scale = mtf.get_variable(image.mesh, name, channels, initializer=initializer, trainable=trainable)
    return image * scale


def _training(image):
    """Runs one step of gradient descent on one weight per channel; returns the loss before the step."""
    loss = mtf.reduce_mean(mtf.square(_scaled(image) - 1))
    (variable,) = image.mesh.graph.trainable_variables
    (gradient,) = mtf.gradients([loss], [variable.value])
    mtf.assign_sub(variable, 0.1 * gradient)
    return {"loss": loss, "weights": (variable.value, gradient)}


def test_the_structure_of_the_outputs_is_kept():
    p = mi.Program(_training, {"image": SHAPE})
    out = p(image=_image())
    assert set(out) == {"loss", "weights"}
    assert isinstance(out["weights"], tuple)
    assert out["loss"].shape == []


def test_slice_shapes():
    p = mi.Program(_training, {"image": SHAPE}, "rows:2,cols:2", "x:rows,y:cols")
    assert p.slice_shape("image") == [2, 4, 2, 2]
    assert p.slice_shape("scale") == [2]
    with pytest.raises(mi.LayoutError, match=r"no input or variable 'x'\. Known names: image, scale\."):
        p.slice_shape("x")


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_programs_start_and_train_alike_under_every_layout(mesh_impl):
    runs = []
    for mesh, layout in LAYOUTS:
        p = mi.Program(_training, {"image": SHAPE}, mesh, layout, mesh_impl, seed=3)
        runs.append([p(image=_image())["loss"].numpy() for _ in range(4)] + [p.variables["scale"].numpy()])
    for run in runs[1:]:
        for value, expected in zip(run, runs[0], strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_initial_values_depend_on_seed_and_name_alone():
    def two(image):
        return _scaled(image, "a") + _scaled(image, "b")

    def other_order(image):
        return _scaled(image, "b") + _scaled(image, "c") + _scaled(image, "a")

    first, second = mi.Program(two, {"image": SHAPE}), mi.Program(other_order, {"image": SHAPE})
    another = mi.Program(two, {"image": SHAPE}, seed=1)
    a, b = first.variables["a"].numpy(), first.variables["b"].numpy()
    np.testing.assert_array_equal(second.variables["a"].numpy(), a)
    assert not np.array_equal(a, b)
    assert not np.array_equal(another.variables["a"].numpy(), a)


def test_outputs_are_values_before_the_update():
    p = mi.Program(_training, {"image": SHAPE}, "rows:2", "x:rows")
    before = p.variables["scale"].numpy()
    weights, gradient = p(image=_image())["weights"]
    np.testing.assert_array_equal(weights, before)
    np.testing.assert_allclose(p.variables["scale"].numpy(), before - 0.1 * gradient.numpy(), rtol=1e-6)


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_every_update_reads_values_from_before_all_updates(mesh_impl):
    def swap(image):
        """Swaps a and b, which is correct only if both are read before either is assigned."""
        shape = mtf.Shape([mtf.Dimension("channels", 2)])
        a = mtf.get_variable(image.mesh, "a", shape, initializer=tf.constant_initializer(1.0))
        b = mtf.get_variable(image.mesh, "b", shape, initializer=tf.constant_initializer(2.0))
        mtf.assign(a, b + mtf.reduce_sum(image) * 0)
        mtf.assign(b, a * 1.0)
        return a + b

    p = mi.Program(swap, {"image": SHAPE}, "rows:2,cols:2", "x:rows,channels:cols", mesh_impl)
    for expected in ([2, 1], [1, 2], [2, 1]):
        np.testing.assert_array_equal(p(image=_image()).numpy(), [3, 3])
        assert [p.variables[k].numpy()[0] for k in "ab"] == expected


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_assignments_to_one_variable_run_in_their_order(mesh_impl):
    """Each starts from the value that the previous one left, as in TensorFlow."""

    def fn(image):
        shape = mtf.Shape(image.shape.dims[-1:])
        first = mtf.get_variable(image.mesh, "first", shape, initializer=tf.constant_initializer(3.0))
        second = mtf.get_variable(image.mesh, "second", shape, initializer=tf.constant_initializer(3.0))
        total = mtf.reduce_sum(image, output_shape=shape)
        mtf.assign(first, first * 2)
        mtf.assign_add(first, total)
        mtf.assign(first, total, lambda variable, master, x: master.assign(master * master - x))
        mtf.assign_sub(first, first)
        mtf.assign_add(second, total)
        mtf.assign(second, total * 5)  # does not depend on the variable, so it may replace the value
        return total

    p = mi.Program(fn, {"image": SHAPE}, "rows:2,cols:2", "x:rows,channels:cols", mesh_impl)
    first = tf.Variable([3.0, 3.0])
    for _ in range(2):
        total, before = p(image=_image()), tf.identity(first)
        first.assign(first * 2)
        first.assign_add(total)
        first.assign(first * first - total)
        first.assign_sub(before)
        np.testing.assert_allclose(p.variables["first"], first, rtol=1e-6)
        np.testing.assert_allclose(p.variables["second"], total * 5, rtol=1e-6)


@pytest.mark.parametrize("before", [mtf.assign, mtf.assign_add])
def test_an_assignment_that_would_drop_earlier_ones_is_refused(before):
    def fn(image):
        v = mtf.get_variable(image.mesh, "count", mtf.Shape([]), initializer=tf.zeros_initializer())
        before(v, mtf.ones(image.mesh, mtf.Shape([])))
        mtf.assign(v, mtf.square(v + 1.0))
        return v

    with pytest.raises(mi.NotSupportedError, match=r"'count' is assigned several times .* Fix: assign it once"):
        mi.Program(fn, {"image": SHAPE})


def test_a_variable_may_be_assigned_and_never_read():
    def fn(image):
        total, zeros = mtf.reduce_sum(image), tf.zeros_initializer()
        mtf.assign(mtf.get_variable(image.mesh, "kept", mtf.Shape([]), initializer=zeros, trainable=False), total)
        return total

    p = mi.Program(fn, {"image": SHAPE}, "rows:2", "x:rows")
    np.testing.assert_allclose(p(image=_image()), _image().sum(), rtol=1e-5)
    np.testing.assert_allclose(p.variables["kept"], _image().sum(), rtol=1e-5)


def test_the_step_counts_calls_that_assign():
    def counting(image):
        return mi.ops.step(image.mesh), _training(image)["loss"]

    p = mi.Program(counting, {"image": SHAPE})
    assert [float(p(image=_image())[0]) for _ in range(3)] == [0, 1, 2]
    assert (int(p.step), p.step.dtype) == (3, tf.int64)
    q = mi.Program(lambda image: mtf.reduce_sum(image), {"image": SHAPE})
    q(image=_image())
    assert int(q.step) == 0


@pytest.mark.parametrize(("updates", "steps"), [("all", 2), ("variables", 0), ("none", 0)])
def test_a_program_runs_all_updates_or_those_of_variables_or_none(updates, steps):
    p = mi.Program(_training, {"image": SHAPE}, updates=updates)
    before = p.variables["scale"].numpy()
    for _ in range(2):
        p(image=_image())
    assert np.array_equal(p.variables["scale"], before) == (updates == "none")
    assert int(p.step) == steps


def test_a_call_that_fails_updates_nothing():
    """The output fails after a long computation, of which the update is independent."""

    def fn(image):
        y = image
        for _ in range(300):
            y = mtf.sin(y)
        y = mtf.slicewise(lambda y: tf.debugging.check_numerics(y, "a sine"), [y])
        count = mtf.get_variable(image.mesh, "count", mtf.Shape([]), initializer=tf.zeros_initializer())
        mtf.assign_add(count, mtf.ones(image.mesh, mtf.Shape([])))
        return mtf.reduce_sum(y)

    p = mi.Program(fn, {"image": SHAPE})
    with pytest.raises(tf.errors.InvalidArgumentError, match="a sine"):
        p(image=_image() * np.nan)
    assert (float(p.variables["count"]), int(p.step)) == (0, 0)
    p(image=_image())
    assert (float(p.variables["count"]), int(p.step)) == (1, 1)


def test_the_adafactor_of_mesh_tensorflow_reads_the_step():
    def fn(image):
        loss = mtf.reduce_mean(mtf.square(_scaled(image) - 1))
        graph = image.mesh.graph
        gradients = mtf.gradients([loss], [v.value for v in graph.trainable_variables])
        mtf.optimize.AdafactorOptimizer(learning_rate=0.1).apply_grads(gradients, graph.trainable_variables)
        return loss

    losses = []
    for mesh, layout in LAYOUTS[:2]:
        p = mi.Program(fn, {"image": SHAPE}, mesh, layout)
        losses.append([float(p(image=_image())) for _ in range(8)])
        assert int(p.step) == 8
    assert losses[0][-1] < losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_calls_from_several_threads_lose_no_update():
    """Each call reads a variable, computes for a while, and increments the variable, which two programs share."""

    def counting(image):
        count = mtf.get_variable(image.mesh, "count", mtf.Shape([]), initializer=tf.zeros_initializer())
        rows, cols = mtf.Dimension("rows", 256), mtf.Dimension("cols", 256)
        product = mtf.ones(image.mesh, mtf.Shape([rows, cols])) * (count + 1.0)
        for _ in range(4):
            product = mtf.einsum([product, mtf.rename_dimension(product, "cols", "to")], reduced_dims=[rows]) / 65536
            product = mtf.rename_dimension(mtf.rename_dimension(product, "cols", "rows"), "to", "cols")
        mtf.assign(count, count + 1.0 + 0.0 * mtf.reduce_max(product))
        return count

    p = mi.Program(counting, {"image": SHAPE}, "rows:2,cols:2", "x:rows,y:cols")
    q = mi.Program(counting, {"image": SHAPE}, variables=p)
    image = _image()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda program: program(image=image), [p, q] * 100))
    assert int(p.step) == 200
    assert float(p.variables["count"]) == 200


def test_checkpoints_are_free_of_the_layout(tmp_path):
    p = mi.Program(_training, {"image": SHAPE}, "rows:2,cols:2", "x:rows,y:cols")
    for _ in range(3):
        p(image=_image())
    path = tf.train.Checkpoint(program=p).write(str(tmp_path / "checkpoint"))
    expected = p(image=_image())["loss"].numpy()
    q = mi.Program(_training, {"image": SHAPE}, "rows:4", "x:rows", "placement", seed=9)
    tf.train.Checkpoint(program=q).read(path).assert_consumed()
    assert int(q.step) == 3
    np.testing.assert_allclose(q(image=_image())["loss"].numpy(), expected, rtol=1e-6)


def test_programs_share_variables():
    p = mi.Program(_training, {"image": SHAPE})
    q = mi.Program(_scaled, {"image": "batch:1,x:6,y:4,channels:2"}, "rows:3", "x:rows", variables=p)
    assert q.variables["scale"] is p.variables["scale"]
    p(image=_image())
    ones = np.ones([1, 6, 4, 2], np.float32)
    np.testing.assert_allclose(q(image=ones)[0, 0, 0], p.variables["scale"].numpy())
    assert int(q.step) == 1
    with pytest.raises(mi.CheckpointError, match=r"'scale' is float32 \[3\] in this program, but float32 \[2\] in"):
        mi.Program(_scaled, {"image": "batch:1,x:6,y:4,channels:3"}, variables=p)


def test_a_variable_that_one_of_the_sharing_programs_adds_belongs_to_all():
    p = mi.Program(_scaled, {"image": SHAPE})
    q, r = (mi.Program(lambda image: _scaled(image, "more"), {"image": SHAPE}, variables=p, seed=s) for s in (1, 2))
    assert set(p.variables) == {"scale", "more"}
    assert q.variables["more"] is r.variables["more"]


def test_programs_that_share_variables_have_the_same_dtypes():
    p = mi.Program(_scaled, {"image": SHAPE})

    def doubled(image):
        return image * mtf.get_variable(image.mesh, "scale", mtf.Shape(image.shape.dims[-1:]), dtype=tf.float64)

    with pytest.raises(mi.CheckpointError, match=r"'scale' is float64 \[2\] in this program, but float32 \[2\] in"):
        mi.Program(doubled, {"image": (SHAPE, tf.float64)}, variables=p)


def _dropped(image):
    y = mi.ops.dropout(image, 0.5) + mi.ops.dropout(image, 0.5)
    z = mtf.random_uniform(image.mesh, image.shape) + mtf.random_normal(image.mesh, image.shape)
    mtf.assign_add(
        mtf.get_variable(image.mesh, "calls", mtf.Shape([]), initializer=tf.zeros_initializer()),
        mtf.ones(image.mesh, mtf.Shape([])),
    )
    return y, z


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_random_values_do_not_depend_on_the_layout(mesh_impl):
    runs = []
    for mesh, layout in LAYOUTS:
        p = mi.Program(_dropped, {"image": SHAPE}, mesh, layout, mesh_impl, seed=5)
        runs.append([v.numpy() for _ in range(2) for v in p(image=np.ones([2, 8, 4, 2], np.float32))])
    for run in runs[1:]:
        for value, expected in zip(run, runs[0], strict=True):
            np.testing.assert_array_equal(value, expected)
    first, numbers, second, others = runs[0]
    assert not np.array_equal(first, second), "two steps draw two masks"
    assert not np.isclose(numbers, others).any(), "two steps draw other numbers"
    assert set(np.unique(first)) == {0, 2, 4}, "two operations draw two masks"


def test_random_values_follow_their_distributions():
    def draws(image):
        shape = mtf.Shape([mtf.Dimension("x", 100_000)])
        mesh = image.mesh
        return (
            mtf.random_uniform(mesh, shape),
            mtf.random_uniform(mesh, shape, minval=-3, maxval=5, dtype=tf.float64),
            mtf.random_normal(mesh, shape, mean=1.0, stddev=2.0),
            mi.ops.dropout(mtf.ones(mesh, shape), 0.2),
        )

    uniform, wide, normal, dropped = (v.numpy() for v in mi.Program(draws, {"image": "x:1"})(image=[0.0]))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    np.testing.assert_allclose([uniform.mean(), uniform.var()], [1 / 2, 1 / 12], atol=3e-3)
    np.testing.assert_allclose(np.histogram(uniform, 20, (0, 1))[0] / 5000, 1, atol=0.06)
    np.testing.assert_allclose(np.corrcoef(uniform[:-1], uniform[1:])[0, 1], 0, atol=0.01)
    np.testing.assert_allclose([wide.mean(), wide.var()], [1, 64 / 12], rtol=0.02)
    np.testing.assert_allclose([normal.mean(), normal.std(), ((normal - 1) ** 4).mean()], [1, 2, 48], rtol=0.04)
    np.testing.assert_allclose([dropped.mean(), (dropped > 0).mean()], [1, 0.8], atol=0.01)


def test_batch_norm_moves_its_statistics_and_uses_them_at_evaluation():
    x = _image()
    p = mi.Program(lambda image: mi.ops.batch_norm(image, True, name="norm"), {"image": SHAPE}, "rows:2", "x:rows")
    assert p.variables["norm/moving_mean"].numpy().tolist() == [0, 0]
    assert p.variables["norm/moving_variance"].numpy().tolist() == [1, 1]
    for _ in range(2):
        p(image=x)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    np.testing.assert_allclose(p.variables["norm/moving_mean"].numpy(), mean * 0.19, rtol=1e-4)
    np.testing.assert_allclose(p.variables["norm/moving_variance"].numpy(), 0.81 + 0.19 * variance, rtol=1e-4)
    q = mi.Program(lambda image: mi.ops.batch_norm(image, False, name="norm"), {"image": SHAPE}, variables=p)
    expected = (x - 0.19 * mean) / np.sqrt(0.81 + 0.19 * variance + 1e-6)
    np.testing.assert_allclose(q(image=x), expected, rtol=1e-4, atol=1e-5)
    assert int(q.step) == 2, "evaluation assigns nothing"


def test_calls_never_trace_again():
    calls = []

    def fn(image):
        calls.append(1)
        return mtf.square(image)

    p = mi.Program(fn, {"image": SHAPE})
    for _ in range(3):
        p(image=_image())
    assert calls == [1]


def test_a_video_is_split_over_its_frames():
    def fn(video, kernel):
        return mi.ops.conv3d(video, kernel)

    video = np.random.default_rng(0).standard_normal([1, 8, 6, 4, 2]).astype(np.float32)
    kernel = np.random.default_rng(1).standard_normal([3, 3, 3, 2, 2]).astype(np.float32)
    inputs = {"video": "batch:1,frames:8,height:6,width:4,channels:2", "kernel": "kt:3,kh:3,kw:3,channels:2,filters:2"}
    p = mi.Program(fn, inputs, "time:4,rows:2", "frames:time,height:rows")
    expected = tf.nn.conv3d(video, kernel, [1] * 5, "SAME")
    np.testing.assert_allclose(p(video=video, kernel=kernel), expected, atol=1e-5)


def test_an_unused_mesh_dimension_is_warned_about(caplog):
    with caplog.at_level(logging.WARNING):
        mi.Program(_training, {"image": SHAPE}, "rows:2,spare:2", "x:rows")
    assert "uses 'spare' of mesh 'rows:2,spare:2'" in caplog.text


def _stem(image, kernel):
    return mi.ops.conv3d(image, kernel, 2, name="down1/conv0")


def _error(*args, **kwargs):
    with pytest.raises(mi.LayoutError) as error:
        mi.Program(*args, **kwargs)
    return str(error.value)


KERNEL = "fx:3,fy:3,fz:3,channels:3,filters:4"


def test_all_faults_of_a_layout_are_reported_at_once():
    text = _error(
        _stem,
        {"image": "batch:1,x:5,y:6,z:4,channels:3", "kernel": KERNEL},
        "rows:2,cols:2",
        "x:rows,y:rows,fz:cols",
    )
    assert "layout 'x:rows,y:rows,fz:cols' on mesh 'rows:2,cols:2' has 2 faults" in text
    assert "input 'image': cannot split both 'x' (size 5) and 'y' (size 6) over 'rows'" in text
    assert "conv3d 'down1/conv0': cannot split 'fz' (size 3) over 'cols' (size 2)" in text


def test_all_faults_of_an_operation_are_reported():
    inputs = {"image": "batch:1,x:4,y:4,z:4,channels:3", "kernel": KERNEL}
    text = _error(_stem, inputs, "rows:2,cols:2", "fx:rows,fz:cols")
    assert "has 2 faults" in text
    assert "cannot split 'fx' (size 3) over 'rows' (size 2)" in text
    assert "cannot split 'fz' (size 3) over 'cols' (size 2)" in text


def test_a_mesh_dimension_may_split_one_dimension_of_a_tensor():
    inputs = {"image": "batch:1,x:4,y:4,z:4,channels:3", "kernel": KERNEL}
    text = _error(_stem, inputs, "rows:2", "x:rows,y:rows")
    assert "cannot split both 'x' (size 4) and 'y' (size 4) over 'rows'" in text


def test_kernels_and_classes_are_not_split():
    inputs = {"image": "batch:1,x:4,y:4,z:4,channels:3", "kernel": "fx:2,fy:3,fz:3,channels:3,filters:4"}
    text = _error(_stem, inputs, "rows:2", "fx:rows")
    assert "cannot split 'fx' (size 2) over 'rows' (size 2): it is a kernel dimension of the filter" in text
    logits = {"logits": "batch:1,x:4,classes:4"}
    text = _error(lambda logits: mi.ops.softmax(logits, logits.shape.dims[-1]), logits, "rows:2", "classes:rows")
    assert "softmax 'softmax': cannot split 'classes' (size 4)" in text


def test_unknown_dimension_names():
    text = _error(_training, {"image": SHAPE}, "rows:2", "xx:rows")
    assert "no tensor dimension is called 'xx'" in text
    assert "Did you mean 'x'" in text


def test_wrong_inputs():
    p = mi.Program(_training, {"image": SHAPE})
    with pytest.raises(mi.ShapeError, match=r"input 'image' must have shape \[batch:2,x:8,y:4,channels:2\], not \[1\]"):
        p(image=[1.0])
    with pytest.raises(mi.ShapeError, match="has the inputs image, but 'img' is unknown, 'image' is missing"):
        p(img=_image())
    with pytest.raises(mi.ShapeError, match=r"has the inputs image, but 'img' is unknown$"):
        p(image=_image(), img=_image())
    with pytest.raises(mi.ShapeError, match="input 'image' must be an array of float32, not of type str"):
        p(image="text")


def test_fn_returns_tensors_only():
    with pytest.raises(mi.ShapeError, match=r"fn must return only mtf\.Tensors"):
        mi.Program(lambda image: 3.0, {"image": SHAPE})


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (lambda x, f: mi.ops.conv2d(x, f), "filter must have 4 dimensions, but it has 5"),
        (
            lambda x, f: mi.ops.conv3d(mtf.rename_dimension(x, "channels", "c"), f),
            "the size of the input's channels, 'c'",
        ),
        (lambda x, f: mi.ops.conv3d(x, f, strides=(1, 2)), "strides must be an int or 3 of them"),
        (
            lambda x, f: mi.ops.conv3d(x, f, padding="FULL"),
            r"padding must be 'SAME', 'VALID' or 3 pairs \(before, after\), .*, not 'FULL'",
        ),
        (lambda x, f: mi.ops.conv3d(x, f, padding="VALID", dilations=3), "a window of 7 voxels does not fit"),
        (lambda x, f: mi.ops.conv3d(mtf.cast(x, tf.float64), f), "input is float64, but the filter is float32"),
        (lambda x, f: mi.ops.max_pool3d(x, 9, 2), "a window of 9 voxels does not fit"),
        (lambda x, f: mi.ops.dropout(x, 1), "rate must be at least 0 and below 1, not 1"),
        (lambda x, f: mi.ops.dropout(x, -0.1), "rate must be at least 0 and below 1, not -0.1"),
        (lambda x, f: mi.ops.add_bias(x, mtf.reduce_sum(x)), "the bias must have the last dimension of the input"),
        (
            lambda x, f: mi.ops.add_bias(mtf.cast(x, tf.float64), mtf.reduce_sum(f, output_shape=x.shape[-1:])),
            "the bias is float32, but the input is float64",
        ),
        (lambda x, f: mi.ops.leaky_relu(x, -0.1), "negative_slope must be at least 0, not -0.1"),
        (
            lambda x, f: mi.ops.conv3d_transpose(mtf.rename_dimension(x, "channels", "filters"), f, 2, output_sizes=20),
            "output 'x' of size 20 has 10 windows, but the input has size 5",
        ),
    ],
)
def test_wrong_calls_of_ops(op, message):
    inputs = {"x": "batch:1,x:5,y:5,z:5,channels:4", "f": "fx:3,fy:3,fz:3,channels:4,filters:4"}
    with pytest.raises(mi.ShapeError, match=message):
        mi.Program(op, inputs)
