"""Labels that are not classes, or that a cast would change, are refused where a batch enters."""

import itertools
import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.jobs.held_out.loss import Trained, loss_of_batches
from mtf_imaging.models.deeplab import SemanticSegmentation
from mtf_imaging.models.unet3d import Segmentation, UNet3D
from mtf_imaging.training.data_set import batch_tensors
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import TrainingStep

SIZES = (4, 4, 2)


class Own:
    """A custom task with two classes, in terms of the public API."""

    def inputs(self, batch_size, sizes, dtype, labels):
        voxels = f"batch:{batch_size},x:{sizes[0]},y:{sizes[1]},z:{sizes[2]}"
        return {"image": (f"{voxels},channels:1", dtype), "labels": (voxels, "int32")}

    def loss(self, image, labels):
        logits = mi.layers.Conv(2, 1, output_name="classes")(image)
        return mi.ops.weighted_cross_entropy(logits, labels, logits.shape.dims[-1]), {}

    def predict(self, image):
        raise NotImplementedError


class Shifted(Own):
    """A task that computes its classes from the labels."""

    def loss(self, image, labels):
        return super().loss(image, labels - 1)


class Images:
    def __init__(self, change):
        self.change = change

    def sizes(self, data_dir):
        return SIZES

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        for step in itertools.count(start_step):
            labels = np.zeros((batch_size, *sizes), np.int64)
            yield {
                "image": np.ones((batch_size, *sizes, 1), np.float32),
                "labels": self.change(labels) if step == 1 else labels,
                "cases": [f"{step}{letter}" for letter in "abcd"[:batch_size]],
            }


def put(value):
    def change(labels):
        labels = labels.astype(np.result_type(labels, value))
        labels[1, 2, 3, 0] = value
        return labels

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(255), "step 1 on cases 1a, 1b: input 'labels' contains 255 at batch 1, x 2, y 3, z 0, but its values must "
            "be 0..1. Fix: renumber"),
        (put(-1), "input 'labels' contains -1 at batch 1, x 2, y 3, z 0, but"),
        (put(0.9), "the batch of step 1 on cases 1a, 1b: 'labels' contains 0.9, which is no int32"),
        (put(np.nan), "'labels' contains nan, which is no int32"),
        (put(2**32 + 1), "'labels' contains 4294967297, which is no int32"),
        (lambda labels: np.eye(2)[labels], "has the shape [2, 4, 4, 2, 2], but the task's input here is [2, 4, 4, 2]"),
    ],
)  # fmt: skip
def test_training_names_the_case_the_value_and_the_classes(tmp_path, change, message):
    options = {
        "task": Own(),
        "data": mi.jobs.TrainingData(".", data_set=Images(change)),
        "num_steps": 2,
        "batch_size": 2,
    }
    with pytest.raises(mi.DataError, match=re.escape(message)) as error:
        mi.jobs.train(model_dir=str(tmp_path), progress=False, **options)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("layout", [("", ""), ("rows:3", "x:rows")], ids=str)
@pytest.mark.parametrize("parts", [1, 2])
def test_every_step_and_the_held_out_loss_check_their_labels(parts, layout):
    described = TrainingStep(Own(), SGD(0.1), SIZES, 2, parts)
    step = described.build(mi.layout.Layout.parse(*layout))
    batch = next(Images(put(3)).batches("", batch_size=2, sizes=SIZES, seed=0, start_step=1))
    (inputs,) = described.split(
        iter([{name: tf.constant(batch[name]) for name in ("image", "labels")} | {"cases": ()}])
    )
    del inputs["cases"]
    with pytest.raises(mi.DataError, match=r"input 'labels' contains 3 at batch .* must be 0\.\.1"):
        step(**inputs)
    loss = loss_of_batches(lambda: iter([batch]), Trained(described, step.program, progress=False), SIZES)
    with pytest.raises(mi.DataError, match="held-out cases on cases 1a, 1b: input 'labels' contains 3 at"):
        loss(lambda: None)


def test_labels_that_the_task_computes_are_reported_without_all_labels():
    step = TrainingStep(Shifted(), SGD(0.1), SIZES, 2).build()
    image, labels = np.ones((2, *SIZES, 1), np.float32), np.full((2, *SIZES), 9, np.int32)
    with pytest.raises(mi.DataError, match=r"a cross entropy gets the label 8, but its classes are 0\.\.1\. Fix"):
        step(image=image, labels=labels)


@pytest.mark.parametrize(
    ("task", "sizes", "name", "values"),
    [
        (Own(), SIZES, "labels", {0, 1}),
        (Segmentation(UNet3D(base_filters=2, depth=2), labels=2), (8, 8, 4), "labels", {0, 1, 2}),
        (Segmentation(UNet3D(base_filters=2, depth=2), labels=2, ignore=9), (8, 8, 1), "labels", {0, 1, 2, 9}),
        (
            Segmentation(UNet3D(base_filters=2, depth=2), labels=2, regions={"all": (1, 2), "part": (2,)}, ignore=3),
            (8, 8),
            "labels",
            {0, 1, 2, 3},
        ),
        (
            SemanticSegmentation(
                lambda image, is_training: mi.layers.Conv(3, 1, output_name="classes")(image), classes=3
            ),
            (8, 8),
            "labels",
            {0, 1, 2, 255},
        ),
    ],
    ids=["own", "labels", "ignored", "regions", "photos"],
)
def test_tasks_declare_their_labels(task, sizes, name, values):
    traced = trace_only(task.loss, task.inputs(2, sizes, dtype="float32", labels=True))
    assert traced.label_values == {name: values}


def test_an_ignore_label_is_accepted_and_other_values_are_not():
    def fn(labels):
        mi.ops.expect_labels(labels, [0, 1, 255])
        return mi.mtf.cast(labels, tf.float32)

    program = mi.Program(fn, {"labels": ("x:4", tf.int32)}, "rows:2", "x:rows")
    np.testing.assert_array_equal(program(labels=[0, 1, 255, 1]), [0, 1, 255, 1])
    for value in (2, 254, 256, -1):
        with pytest.raises(mi.DataError, match=rf"contains {value} at x 2, but its values must be 0\.\.1, 255\. Fix"):
            program(labels=[0, 255, value, 1])


def test_floats_and_wide_integers_of_whole_numbers_are_labels():
    for dtype in ("float64", "float32", "int64", "uint8", "bool"):
        (batch,) = batch_tensors([{"labels": np.ones(3, dtype)}], {"labels": ("x:3", tf.int32)}, "data")
        assert (batch["labels"].dtype, batch["labels"].numpy().tolist()) == (tf.int32, [1, 1, 1])
