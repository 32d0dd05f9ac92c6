"""Error messages for tasks and data sets that do not follow their protocols."""

import itertools
import re
import types

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.training.data_set import data_batches, data_sizes, reads_regions
from mtf_imaging.training.describe import describe_slices
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import task_inputs

mtf = mi.mtf


class Sum:
    """A minimal task: `weight sum(image)`."""

    def inputs(self, batch_size, sizes, dtype, labels):
        return {"image": f"batch:{batch_size},x:{sizes[0]}"}

    def weight(self, image):
        return mtf.get_variable(image.mesh, "weight", mtf.Shape([]), initializer=tf.ones_initializer())

    def loss(self, image):
        return mtf.reduce_sum(image) * self.weight(image), {}

    def predict(self, image):
        return mtf.reduce_sum(image)


def program(task, size=4, **layout):
    inputs = task_inputs(task, 2, (size,))
    return mi.Program(training_step(task, SGD(0.1)), inputs, **layout), inputs


def test_inputs_without_a_dtype_are_float32():
    made, inputs = program(Sum())
    assert inputs == {"image": ("batch:2,x:4", tf.float32)}
    assert made(image=np.ones((2, 4)))["loss"].numpy() == 8
    assert describe_slices(made, inputs).splitlines()[1] == "image            batch:2 x:4  2 x 4"


def test_the_table_of_slices_lists_uneven_slices():
    described = describe_slices(*program(Sum(), 5, mesh_shape="rows:4", layout="x:rows")).splitlines()
    assert described[1] == "image            batch:2 x:5  2 x 2"
    assert described[-2] == "x: 5 over rows:4 -> slices of 2, last 1, 1 of 4 empty"


class NoPredict:
    inputs, loss = Sum.inputs, Sum.loss


class NoDtype(Sum):
    def inputs(self, batch_size, sizes):
        return {}


class OtherNames(Sum):
    def loss(self, picture):
        return mtf.reduce_sum(picture), {}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            None,
            "task is of class NoneType, which cannot be called as task.inputs(batch_size, sizes, dtype=",
        ),
        (Sum, "task is the class Sum, which cannot be called as task.inputs("),
        (
            NoPredict(),
            "task is of class NoPredict, which cannot be called as task.predict(): 'NoPredict' object",
        ),
        (NoDtype(), "labels=...): got an unexpected keyword argument 'dtype'. Fix: pass an instance of a class with"),
        (OtherNames(), "cannot be called as task.loss(image=...): missing a required argument"),
    ],
)
def test_an_invalid_task_is_refused(task, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        task_inputs(task, 2, (4,))
    assert error.value.settings == ("task",)


def test_predict_is_checked_before_it_is_called():
    task = Sum()
    task.predict = lambda picture: picture
    task_inputs(task, 2, (4,))
    with pytest.raises(ConfigError, match=re.escape("cannot be called as task.predict(image=...)")):
        task_inputs(task, 2, (4,), labels=False)


@pytest.mark.parametrize(
    "result",
    [
        lambda loss, image: loss,
        lambda loss, image: (loss, loss),
        lambda loss, image: None,
        lambda loss, image: (1.0, {}),
        lambda loss, image: (loss, {"dice": 0.5}),
        lambda loss, image: (image * loss, {}),
        lambda loss, image: (loss, {"dice": image}),
        lambda loss, image: (loss, {"loss": loss}),
    ],
)
def test_an_invalid_loss_is_refused(result):
    class Other(Sum):
        def loss(self, image):
            return result(super().loss(image)[0], image)

    with pytest.raises(ConfigError, match=r"the loss of task Other must return a pair: .* but it returned .* Fix: "):
        program(Other())


def test_a_loss_without_weights_is_refused():
    class Fixed(Sum):
        def loss(self, image):
            return mtf.reduce_sum(image), {}

    with pytest.raises(
        ConfigError, match=r"the loss of task Fixed has no weights to train\. Fix: create weights with mtf\.get"
    ):
        program(Fixed())


class Ones:
    """A data set of ones; `change` modifies each batch."""

    def __init__(self, change=lambda batch: batch, count=None):
        self.change, self.count = change, count

    def sizes(self, data_dir):
        return np.array([4])

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        for _ in itertools.count() if self.count is None else range(start_step, self.count):
            yield self.change({"image": np.ones((batch_size, *sizes), np.uint8)})


def batches(data, start_step=0, regions=None):
    inputs = {"image": ("batch:2,x:4", tf.float64)}
    options = {"batch_size": 2, "sizes": (4,), "seed": 0, "start_step": start_step}
    return data_batches(data, "folder", inputs, **options, regions=regions)


def test_batches_have_the_dtype_of_the_input_and_the_names_of_their_cases():
    assert data_sizes(Ones(), "folder") == (4,)
    batch = next(batches(Ones()))
    assert batch["image"].dtype == tf.float64
    assert batch["cases"] == []
    named = next(batches(Ones(lambda batch: batch | {"cases": np.array([3, 7])})))
    assert named["cases"] == ["3", "7"]
    assert next(batches(Ones(lambda batch: batch | {"cases": "one"})))["cases"] == ["one"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda batch: [1], "must be a dict of arrays for the inputs image, but it has the class list."),
        (lambda batch: {}, "must be a dict of arrays for the inputs image, but it has the class dict."),
        (lambda batch: {"picture": 1, "cases": []}, "the inputs image, but it has the arrays picture, cases."),
        (
            lambda batch: {"image": batch["image"][:1]},
            "'image' has the shape [1, 4], but the task's input here is [2",
        ),
        (lambda batch: {"image": [["a"]]}, "'image' cannot be converted to an array of float64: "),
        (lambda batch: {"image": [[1], [1, 2]]}, "'image' cannot be converted to an array of float64: "),
    ],
)
def test_a_batch_that_does_not_fit_names_the_data_set_and_the_step(change, message):
    with pytest.raises(DataError, match=re.escape(message)) as error:
        next(batches(Ones(change), start_step=5))
    assert str(error.value).startswith("data set Ones: the batch of step 5")


def test_batches_that_end_are_reported():
    iterator = batches(Ones(count=7), start_step=5)
    next(iterator), next(iterator)
    with pytest.raises(DataError, match=re.escape("data set Ones: there is no batch for step 7; `batches` must")):
        next(iterator)


class Halves(Ones):
    """A data set that reads regions."""

    def region_batches(self, data_dir, *, batch_size, sizes, seed, start_step, regions):
        for step in itertools.count(start_step):
            yield self.change({"image": np.full(regions["image"].shape, step), "cases": ["a", "b"]})


HALF = {"image": TensorRegion((2, 4), (slice(0, 2), slice(2, 4)))}


def test_regions_are_read_only_from_data_sets_that_offer_them():
    assert not reads_regions(Ones())
    assert reads_regions(Halves())
    batch = next(batches(Halves(), start_step=5, regions=HALF))
    np.testing.assert_array_equal(batch["image"], np.full((2, 2), 5.0))
    assert batch["image"].dtype == tf.float64
    assert batch["cases"] == ["a", "b"]


def test_a_derived_class_that_changes_only_whole_batches_reads_them():
    class Doubled(Halves):
        def batches(self, *args, **options):
            return ({**batch, "image": 2 * batch["image"]} for batch in super().batches(*args, **options))

    class Both(Doubled):
        region_batches, batches = Halves.region_batches, Doubled.batches

    assert not reads_regions(Doubled())
    assert reads_regions(Both())
    assert reads_regions(types.SimpleNamespace(region_batches=print))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (Ones(), ConfigError, "data is of class Ones, which cannot be called as data.region_batches(data_dir, "),
        (
            Halves(lambda batch: {"image": np.ones((2, 4))}),
            DataError,
            "the batch of step 5: 'image' has the shape [2, 4], but the task's input here is [2, 2].",
        ),
    ],
)
def test_a_region_that_does_not_fit_is_refused(data, error, message):
    with pytest.raises(error, match=re.escape(message)):
        next(batches(data, start_step=5, regions=HALF))


@pytest.mark.parametrize("sizes", [None, (), (4, 0), (1, 2, 3, 4), ("a",), 64])
def test_invalid_sizes_are_refused(sizes):
    data = Ones()
    data.sizes = lambda data_dir: sizes
    with pytest.raises(
        DataError, match=re.escape("data set Ones: sizes must return 1 to 3 positive numbers of voxels")
    ):
        data_sizes(data, "folder")


def test_an_invalid_data_set_is_refused():
    data = Ones()
    data.batches = lambda data_dir, batch_size: None
    text = (
        r"batch_size=\.\.\., sizes=\.\.\., seed=\.\.\., start_step=\.\.\.\): got an unexpected keyword argument 'sizes'"
    )
    with pytest.raises(ConfigError, match=text) as error:
        batches(data)
    assert error.value.settings == ("data",)
