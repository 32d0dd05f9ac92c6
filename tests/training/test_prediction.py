"""Prediction of one volume at a time, with the current weights of a training program and with saved weights."""

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import NetworkBuilder, predictor
from mtf_imaging.training.step import training_step

SIZES = (8, 4, 4)
SPLIT = {"layout": Layout.parse("rows:2,cores:2", "x:rows,batch:cores")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param({}, id="whole"),
        pytest.param(SPLIT | {"mesh_impl": "stacked"}, id="stacked"),
        pytest.param({"layout": Layout.parse("rows:5,cores:3", "x:rows,batch:cores")}, id="uneven"),
        pytest.param(SPLIT | {"mesh_impl": "placement"}, id="placement"),
    ],
)
def test_it_follows_the_program_that_trains(tmp_path, layout):
    rng = np.random.default_rng(0)
    image = rng.random((*SIZES, 1))
    batch = {"image": np.stack([image, image]), "labels": rng.integers(3, size=(2, *SIZES))}
    task = LiverTumorSegmentation(UNet3D(base_filters=1, depth=2, convs=1))
    network = {"task": task, "dtype": "float64", **layout}
    program = mi.Program(training_step(task, Adam(0.1)), task.inputs(2, SIZES, dtype="float64"), **layout)
    predict = NetworkBuilder(**network).network_of(program, SIZES)
    before = predict(image)
    assert before.shape == (*SIZES, 3)
    program(**batch)
    after = predict(image)
    assert np.abs(after - before).max() > 1e-3
    assert int(program.step) == 1, "a prediction does not count as a step"
    Checkpoints(tmp_path, program).save()
    np.testing.assert_array_equal(predictor(model_dir=tmp_path, sizes=SIZES, **network)(image), after)
    whole = network | {"layout": ONE_PROCESSOR}
    np.testing.assert_allclose(predictor(model_dir=tmp_path, sizes=SIZES, **whole)(image), after, rtol=1e-10)


class TwoParts:
    """Predicts a dict: the mean of each row and of the whole image."""

    def inputs(self, batch_size, sizes, *, dtype, labels):
        return {"image": (f"batch:{batch_size},x:{sizes[0]},y:{sizes[1]},channels:1", dtype)}

    def loss(self, image):
        weight = mi.mtf.get_variable(image.mesh, "weight", mi.mtf.Shape([]), dtype=image.dtype)
        return mi.mtf.reduce_mean(image * weight), {}

    def predict(self, image):
        return {
            "rows": mi.mtf.reduce_mean(image, output_shape=image.shape.dims[:2]),
            "all": mi.mtf.reduce_mean(image, output_shape=image.shape.dims[:1]),
        }


@pytest.mark.parametrize("layout", [ONE_PROCESSOR, Layout.parse("rows:3", "x:rows")], ids=["whole", "split"])
def test_a_prediction_may_be_a_dict(layout):
    image = np.random.default_rng(0).random((4, 6, 1))
    task = TwoParts()
    program = mi.Program(training_step(task, Adam(0.1)), task.inputs(1, (4, 6), dtype="float64", labels=True))
    result = NetworkBuilder(task=task, dtype="float64", layout=layout).network_of(program, (4, 6))(image)
    assert result.keys() == {"rows", "all"}
    np.testing.assert_allclose(result["rows"], image.mean(axis=(1, 2)))
    np.testing.assert_allclose(result["all"], image.mean())
