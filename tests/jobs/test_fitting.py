"""`mi.fit` and `mi.predict`: training on arrays under any layout, with scores, callbacks and resumption."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging import layers, mtf
from mtf_imaging.data.pairs import MEASURES, ArrayPairs, DatasetPairs
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.training.callbacks import EarlyStopping, ReduceOnPlateau
from mtf_imaging.training.losses import LOSSES
from mtf_imaging.training.optimizers import SGD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 8, 6, 7, 2))
Y = (X[..., 0] > 0.3).astype(np.uint8) + (X[..., 1] > 1)
QUIET = {"progress": False, "dtype": "float64"}
LAYOUTS = {
    "split": {"mesh_shape": "rows:2,cols:3", "layout": "x:rows,y:cols"},
    "turns": {"mesh_shape": "slabs:3", "layout": "x:slabs", "sequential": "slabs"},
}


def network(image):
    return layers.Conv(3, 1)(layers.Conv(4, activation="relu")(image))


def fit(x=X, y=Y, **settings):
    return mi.fit(network, x, y, **{"steps": 4, "batch_size": 2, **QUIET, **settings})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of four steps, with scores after the second and the fourth."""
    folder = tmp_path_factory.mktemp("whole")
    return fit(X[:3], Y[:3], validation=(X[3:], Y[3:]), eval_every=2, model_dir=folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_no_loss_no_score_and_no_prediction(whole, layout, tmp_path):
    split = fit(X[:3], Y[:3], validation=(X[3:], Y[3:]), eval_every=2, **LAYOUTS[layout])
    for name, values in {**whole.losses, **whole.scores}.items():
        np.testing.assert_allclose({**split.losses, **split.scores}[name], values, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(split.predict(X, dtype="float64"), whole.predict(X, dtype="float64"), rtol=1e-9)
    own = whole.predict(X, dtype="float64", **LAYOUTS[layout])
    np.testing.assert_allclose(own, whole.predict(X, dtype="float64"), rtol=1e-9)


def test_the_history_has_the_losses_and_scores(whole):
    assert whole.losses["step"] == [0, 1, 2, 3]
    assert whole.scores["step"] == [2, 4]
    assert whole.stopped is None
    assert repr(whole).startswith(f"<History of 4 steps, last loss {whole.losses['loss'][-1]:.4g}, run in ")
    probabilities = whole.predict(X[3:], dtype="float64")
    np.testing.assert_allclose(probabilities.sum(-1), 1)
    chosen = probabilities.argmax(-1)
    each = [2 * np.sum((chosen == k) & (Y[3:] == k)) / (np.sum(chosen == k) + np.sum(Y[3:] == k)) for k in (1, 2)]
    assert whole.scores["dice"][-1] == pytest.approx(np.mean(each))


def test_a_run_continues_in_its_folder(tmp_path):
    at_once = fit(steps=4, model_dir=tmp_path / "at_once")
    fit(steps=2, model_dir=tmp_path / "parts")
    continued = fit(steps=4, model_dir=tmp_path / "parts", **LAYOUTS["turns"])
    np.testing.assert_allclose(continued.losses["loss"], at_once.losses["loss"], rtol=1e-9)


def test_train_takes_a_pair_of_arrays(tmp_path):
    history = fit(steps=2)
    again = mi.jobs.train(task=history.task, data=(X, Y), model_dir=tmp_path, num_steps=2, batch_size=2, **QUIET)
    assert again.losses == history.losses
    assert again.evaluate(X, Y, dtype="float64") == history.evaluate(X, Y, dtype="float64")


def test_an_optimizer_of_keras_is_refused():
    import keras

    with pytest.raises(mi.ConfigError, match=r"optimizer must be an Optimizer of mi\.training\.optimizers"):
        fit(optimizer=keras.optimizers.Adam())


def test_a_temporary_run_is_deleted_with_its_history():
    history = fit(steps=1)
    folder = history.model_dir
    assert folder.is_dir()
    del history
    assert not folder.exists()


def test_callbacks_receive_values_and_stop_the_run():
    seen = []

    def callback(step, values):
        seen.append((step, sorted(values)))
        return "enough" if step == 3 else None

    history = fit(steps=9, callbacks=[callback], validation=(X, Y), eval_every=2)
    held_out = ["held_out/dice", "held_out/loss", "loss"]
    assert seen == [(1, ["loss"]), (2, held_out), (3, ["loss"])]
    assert "enough" in history.stopped
    assert len(history.losses["loss"]) == 3


def test_early_stopping():
    stopping = EarlyStopping("loss", steps=3, higher_is_better=False, least=0.1)
    reasons = [stopping(step, {"loss": loss}) for step, loss in enumerate([3, 2, 1.95, 1.5, 1.5, 1.45, 1.6], 1)]
    assert reasons[:-1] == [None] * 6
    assert reasons[-1] == "loss has not become better than 1.5000 since step 4"
    assert stopping(9, {"other": 1.0}) is None


def test_the_learning_rate_is_reduced_on_a_plateau():
    reducing = ReduceOnPlateau("loss", steps=2, factor=0.5, higher_is_better=False, lowest=0.2)
    seen = []
    for step, loss in enumerate([3, 3, 3, 2, 2, 2, 2, 2, 2, 2], 1):
        reducing(step, {"loss": loss})
        seen.append(reducing.value)
    assert seen == [1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]
    with pytest.raises(mi.ConfigError, match="it must be a number above 0 and below 1"):
        ReduceOnPlateau("loss", 2, factor=1.0)


def test_a_reduced_rate_survives_a_stop(whole, tmp_path):
    """Runs that stop and resume end with the same bits, also if they stop where the rate is reduced."""

    def run(monitor, folder, stops=()):
        # No value is better by 9, so the rate is reduced after two steps, again and again.
        reducing = ReduceOnPlateau(monitor, 2, 0.5, higher_is_better=monitor != "loss", least=9.0)
        options = {"validation": (X[3:], Y[3:]), "eval_every": 2, "model_dir": tmp_path / folder, "steps": 5}
        for number in stops:
            stopping = lambda step, values, number=number: "enough" if step == number else None  # noqa: E731
            assert "enough" in fit(X[:3], Y[:3], **options, callbacks=[reducing, stopping]).stopped
        history = fit(X[:3], Y[:3], **options, callbacks=[reducing])
        return history.losses, tf.train.load_checkpoint(str(tmp_path / folder / "ckpt-5"))

    last = []
    for number, monitor in enumerate(("loss", "held_out/dice")):
        (losses, at_once), (again, parts) = run(monitor, f"at once {number}"), run(monitor, f"parts {number}", (3, 4))
        assert losses == again
        assert losses["loss"][:4] == whole.losses["loss"]
        last.append(losses["loss"][4])
        names = [name for name in at_once.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
        (own,) = [name for name in names if "learning_rate_factor" in name]
        assert parts.get_tensor(own) == 0.5  # the factor of the last step
        for name in names:
            np.testing.assert_array_equal(parts.get_tensor(name), at_once.get_tensor(name), err_msg=name)
    assert last[0] != last[1]  # the loss reduces the rate before the last loss is computed, the score after it


def _expected(name, outputs, targets):
    """Returns a loss as TensorFlow computes it."""
    if name == "binary_cross_entropy":
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(targets, outputs))
    if name in ("mse", "mae"):
        return tf.reduce_mean(tf.square(outputs - targets) if name == "mse" else tf.abs(outputs - targets))
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs))
    if name == "cross_entropy":
        return cross_entropy
    p, t = tf.nn.softmax(outputs)[..., 1:], tf.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)[..., 1:]
    shared, total = tf.reduce_sum(p * t, [1, 2]), tf.reduce_sum(p + t, [1, 2])
    return cross_entropy + tf.reduce_mean(1 - (2 * shared + 0.1) / (total + 0.1))


@pytest.mark.parametrize("name", LOSSES)
def test_the_losses_equal_those_of_tensorflow(name):
    outputs = RNG.normal(size=(2, 5, 4, 3))
    is_classes = LOSSES[name].targets == "labels"
    targets = RNG.integers(0, 3, (2, 5, 4)) if is_classes else RNG.uniform(size=outputs.shape)
    labels = ("batch:2,x:5,y:4", "int32") if is_classes else ("batch:2,x:5,y:4,values:3", "float64")
    specs = {"outputs": ("batch:2,x:5,y:4,channels:3", "float64"), "labels": labels}
    program = mi.Program(LOSSES[name].compute, specs, "rows:2", "x:rows")
    expected = _expected(name, tf.constant(outputs), tf.constant(targets))
    np.testing.assert_allclose(program(outputs=outputs, labels=targets), expected, rtol=1e-12)


def score(name, pairs):
    return MEASURES[name].score(sum(MEASURES[name].of_pair(*pair) for pair in pairs))


def test_the_measures():
    prediction, target = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1])
    assert score("dice", [(prediction, target)]) == pytest.approx(2 / 3)
    assert score("accuracy", zip(prediction, target)) == pytest.approx(2 / 3)
    values = RNG.normal(size=(2, 6))
    expected = 1 - np.sum((values - 0.5) ** 2) / np.sum((values - values.mean()) ** 2)
    assert score("r2", [(np.full(6, 0.5), row) for row in values]) == pytest.approx(expected)
    absent = score("dice", [(np.array([[0.9, 0.1, 0.0]]), np.array([0]))])
    assert absent == 1.0  # neither predicted nor labeled


def test_images_have_classes_and_numbers_as_targets():
    def classify(image):
        return layers.Dense(2)(
            mtf.reduce_mean(layers.Conv(4)(image), output_shape=[image.shape.dims[0], mtf.Dimension("channels", 4)])
        )

    classes = mi.fit(classify, X, np.arange(5) % 2, steps=1, validation=(X, np.arange(5) % 2), **QUIET)
    assert classes.predict(X, dtype="float64").shape == (5, 2)
    assert set(classes.scores) == {"step", "loss", "accuracy"}
    numbers = mi.fit(network, X, X[..., [0, 1, 0]], steps=1, validation=(X, X[..., [0, 1, 0]]), **QUIET)
    assert set(numbers.scores) == {"step", "loss", "r2"}


def test_a_dataset_of_pairs_gives_the_batches_of_its_arrays():
    dataset = tf.data.Dataset.from_tensor_slices((X, Y))
    history = mi.fit(network, dataset, steps=3, batch_size=2, **QUIET)
    assert len(history.losses["loss"]) == 3
    batches = DatasetPairs(dataset).batches("", batch_size=2, sizes=(), seed=0, start_step=2)
    np.testing.assert_array_equal(next(batches)["labels"], Y[[4, 0]])


def test_an_array_without_a_length_is_trained_on():
    class Zarr:
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, place):
            return X[place]

    zarr, numpy = fit(Zarr(), steps=1), fit(steps=1)
    assert zarr.losses == numpy.losses
    np.testing.assert_array_equal(zarr.predict(Zarr(), dtype="float64"), zarr.predict(X, dtype="float64"))


def test_every_pass_contains_every_sample():
    pairs = ArrayPairs(np.arange(5.0)[:, None, None], np.arange(5))
    batches = pairs.batches("", batch_size=2, sizes=(), seed=1, start_step=0)
    numbers = np.concatenate([batch["labels"] for batch in itertools.islice(batches, 10)]).reshape(4, 5)
    assert all(sorted(epoch) == [0, 1, 2, 3, 4] for epoch in numbers)
    assert len({tuple(epoch) for epoch in numbers}) > 1
    later = next(pairs.batches("", batch_size=2, sizes=(), seed=1, start_step=4))
    np.testing.assert_array_equal(later["labels"], numbers.ravel()[8:10])


def test_a_process_reads_its_region_of_a_batch():
    regions = {
        "image": TensorRegion((2, 8, 6, 7, 2), (slice(1, 2), slice(4, 8), slice(0, 6), slice(0, 7), slice(0, 2))),
        "labels": TensorRegion((2, 8, 6, 7), (slice(2, 2), slice(4, 8), slice(0, 6), slice(0, 7))),
    }
    pairs = ArrayPairs(X, Y)
    options = {"batch_size": 2, "sizes": (8, 6, 7), "seed": 0, "start_step": 1}
    whole, part = next(pairs.batches("", **options)), next(pairs.region_batches("", **options, regions=regions))
    np.testing.assert_array_equal(part["image"], whole["image"][1:2, 4:])
    assert part["labels"].shape == (0, 4, 6, 7)
    assert part["cases"] == whole["cases"]


AGES, GRADES = RNG.normal(size=(5, 3)), np.arange(5) % 2
SEVERAL = {"image": X, "age": AGES}, {"mask": Y, "grade": GRADES}


def two_networks(image, age):
    return {"mask": network(image), "grade": layers.Dense(2)(age)}


def of_tuples(image, age):
    return tuple(two_networks(image, age).values())


def test_several_inputs_and_outputs(tmp_path):
    options = {"steps": 2, "batch_size": 2, "eval_every": 2, **QUIET}
    history = mi.fit(two_networks, *SEVERAL, **options, validation=SEVERAL, model_dir=tmp_path / "run")
    losses = {name: np.array(values) for name, values in history.losses.items()}
    np.testing.assert_allclose(losses["loss"], losses["mask_loss"] + losses["grade_loss"], rtol=1e-7)
    assert set(history.scores) == {"step", "loss", "mask_dice", "grade_accuracy"}
    other = mi.fit(of_tuples, (X, AGES), (Y, GRADES), **options, **LAYOUTS["split"])
    np.testing.assert_allclose(other.losses["loss"], losses["loss"], rtol=1e-7)
    first, second = history.predict(SEVERAL[0], dtype="float64"), other.predict((X, AGES), dtype="float64")
    for one, two, score in (("mask", "output_0", "mask_dice"), ("grade", "output_1", "grade_accuracy")):
        np.testing.assert_allclose(first[one].sum(-1), 1)
        np.testing.assert_allclose(first[one], second[two], rtol=1e-9)
        (last,) = history.scores[score]
        assert history.evaluate((X, AGES), (Y, GRADES), dtype="float64", **LAYOUTS["turns"])[score] == last
    (tmp_path / "arrays").mkdir()
    np.savez(tmp_path / "arrays/sample.npz", image=X[3], age=AGES[3])
    paths = {"model_dir": tmp_path / "run", "input": tmp_path / "arrays", "output": tmp_path / "predictions"}
    (written,) = mi.jobs.predict(task=history.task, **paths, **QUIET)
    with np.load(written) as arrays:
        for name in ("mask", "grade"):
            np.testing.assert_array_equal(arrays[name], first[name][3])


def of_voxels(image, age):
    mask = layers.Conv(3, 1)(image) + layers.Dense(3)(age)
    return {"mask": mask, "image": layers.Conv(2, 1, activation="relu")(image)}


@pytest.fixture(scope="module")
def folds(tmp_path_factory):
    """Two runs of a network with several inputs and outputs, whose predictions depend on single voxels."""
    folder = tmp_path_factory.mktemp("folds")
    targets = {"mask": Y, "image": X}
    options = {"loss_weights": {"mask": 2, "image": 0.25}, "batch_size": 2, **QUIET}
    return [
        mi.fit(of_voxels, SEVERAL[0], targets, steps=steps, model_dir=folder / f"fold_{steps - 1}", **options)
        for steps in (1, 2)
    ]


@pytest.mark.parametrize("layout", [{}, *LAYOUTS.values(), {"mesh_shape": "cores:2", "layout": "batch:cores"}])
def test_windows_slide_over_several_inputs_and_outputs(folds, layout):
    expected = folds[0].predict(SEVERAL[0], dtype="float64")
    found = folds[0].predict(SEVERAL[0], dtype="float64", window=SlidingWindow((6, 4, 5)), **layout)
    for name in ("mask", "image"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)


def test_an_ensemble_of_networks_with_several_inputs_and_outputs(folds, tmp_path):
    expected = [run.predict(SEVERAL[0], dtype="float64") for run in folds]
    (tmp_path / "arrays").mkdir()
    np.savez(tmp_path / "arrays/sample.npz", image=X[3], age=AGES[3])
    options = {"task": folds[0].task, "model_dir": folds[0].model_dir.parent, "ensemble": True, **QUIET}
    (written,) = mi.jobs.predict(input=tmp_path / "arrays", output=tmp_path / "predictions", **options)
    mi.jobs.export(output=tmp_path / "model", **options)
    saved = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    exported = saved(image=tf.constant(X[3], tf.float32), age=tf.constant(AGES[3], tf.float32))
    with np.load(written) as arrays:
        for name in ("mask", "image"):
            mean = (expected[0][name][3] + expected[1][name][3]) / 2
            np.testing.assert_allclose(arrays[name], mean, rtol=1e-12)
            np.testing.assert_allclose(exported[name], mean, atol=1e-6)


def test_the_total_is_the_weighted_sum_of_the_losses(folds):
    losses = {name: np.array(values) for name, values in folds[1].losses.items()}
    np.testing.assert_allclose(losses["loss"], 2 * losses["mask_loss"] + 0.25 * losses["image_loss"], rtol=1e-7)


@pytest.mark.slow
def test_weighted_losses_equal_those_of_keras():
    import keras

    image, age = keras.Input(X.shape[1:], name="image"), keras.Input((3,), name="age")
    pooled = keras.layers.Concatenate()([keras.layers.GlobalAveragePooling3D()(image), age])
    outputs = {
        "mask": keras.layers.Conv3D(3, 3, padding="same", name="mask")(image),
        "grade": keras.layers.Dense(2, name="grade")(pooled),
    }
    model, weights = keras.Model([image, age], outputs), {"mask": 0.25, "grade": 3.0}
    x = {"image": X.astype(np.float32), "age": AGES.astype(np.float32)}
    y = {"mask": Y, "grade": GRADES}
    options = {
        "loss_weights": weights,
        "optimizer": SGD(0.1, momentum=0),
        "steps": 3,
        "batch_size": 5,
        "progress": False,
    }
    history = mi.fit(model, x, y, loss="cross_entropy", **options, **LAYOUTS["split"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss=dict.fromkeys(y, loss), loss_weights=weights)
    expected = model.fit(x, y, batch_size=5, epochs=3, shuffle=False, verbose=0).history["loss"]
    np.testing.assert_allclose(history.losses["loss"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, SEVERAL[1], "missing"),
        (SEVERAL[0], Y, "has the outputs mask, grade, but the targets and losses include a single one"),
        (SEVERAL[0], {"masks": Y, "grade": GRADES}, "include one for 'masks'. Did you mean 'mask'?"),
    ],
)
def test_wrong_inputs_and_outputs_are_explained(x, y, message):
    with pytest.raises((mi.MtfImagingError, TypeError), match=message):
        mi.fit(two_networks, x, y, steps=1, **QUIET)


@pytest.mark.slow
def test_a_keras_model_is_trained_predicts_and_is_exported(tmp_path):
    import keras

    image, age = keras.Input(X.shape[1:], name="scan"), keras.Input((3,), name="age")
    features = keras.layers.Conv3D(4, 3, padding="same", activation="relu")(image)
    pooled = keras.layers.Concatenate()([keras.layers.GlobalAveragePooling3D()(features), age])
    outputs = [keras.layers.Conv3D(3, 1, name="mask")(features), keras.layers.Dense(2, name="grade")(pooled)]
    model = keras.Model([image, age], outputs)
    x = {"scan": X.astype(np.float32), "age": AGES.astype(np.float32)}
    predicted = mi.predict(model, x, **LAYOUTS["split"])
    history = mi.fit(model, x, SEVERAL[1], steps=2, progress=False, model_dir=tmp_path / "run", **LAYOUTS["split"])
    probabilities = history.predict(x)
    for name, before in zip(("mask", "grade"), model.predict(x, verbose=0)):
        np.testing.assert_allclose(predicted[name], before, atol=1e-5)
    for name, after in zip(("mask", "grade"), mi.networks.load(model).export(tmp_path / "run").predict(x, verbose=0)):
        np.testing.assert_allclose(probabilities[name], tf.nn.softmax(after), atol=1e-5)
    paths = {"model_dir": tmp_path / "run", "output": tmp_path / "model"}
    card = mi.jobs.export(task=history.task, **paths, progress=False)
    assert [field.name for field in card.signatures[0].inputs] == ["scan", "age"]
    saved = tf.saved_model.load(str(paths["output"])).signatures["serving_default"]
    for name, result in saved(**{name: tf.constant(array[4]) for name, array in x.items()}).items():
        np.testing.assert_allclose(result, probabilities[name][4], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "dice"}, r"loss = 'dice' is unknown. Did you mean 'dice_ce'\?"),
        ({"loss": "mse"}, "loss = 'mse' needs targets that are numbers .* choose dice_ce or cross_entropy"),
        ({"y": Y[:2]}, "other numbers of samples, or none: 5 for image, 2 for labels"),
        ({"y": {"mask": Y}, "loss": {"masks": "mse"}}, "loss is for masks, but the targets are for mask"),
        ({"loss_weights": {"mask": 1}}, "loss_weights is for mask, but the targets are for a single output"),
        ({"loss_weights": -1}, "loss_weights = -1: it must be a number of at least 0"),
        ({"x": (X, X)}, "the network has the inputs image, but x has 2 arrays"),
        ({"y": Y[:, :3]}, r"the targets have the shape \[3, 6, 7\] .* integers of the shape \[8, 6, 7\]"),
        ({"y": None}, "there are no targets"),
        ({"x": tf.data.Dataset.from_tensor_slices(X)}, "must be pairs of an image and a target"),
        ({"layout": "x:rows"}, "rows"),
    ],
)
def test_wrong_arguments_are_explained(changes, message):
    with pytest.raises(mi.MtfImagingError, match=message):
        fit(**changes)


def test_a_function_without_weights_does_not_predict():
    with pytest.raises(mi.ConfigError, match="Fix: give model_dir"):
        mi.predict(network, X)
