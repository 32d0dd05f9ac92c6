"""Recomputation does not change the training of a U-Net: losses, gradients, weights and statistics are equal."""

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step

SIZES = (8, 8, 4)
LAYOUTS = {
    "whole": {},
    "stacked": {"layout": Layout.parse("rows:2,cols:2", "x:rows,y:cols"), "mesh_impl": "stacked"},
    "placement": {"layout": Layout.parse("rows:2,cores:2", "x:rows,batch:cores"), "mesh_impl": "placement"},
    "gathered": {"layout": Layout.parse("rows:4", "x:rows"), "mesh_impl": "stacked"},
}


def train(recompute, parts=1, **layout):
    """Returns the losses of two steps and the variables after them. The velocities of SGD contain the gradients."""
    # Slices of one voxel are gathered, for instance where a layout splits the 4 voxels of the lower level by 4.
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, gather_below=2, recompute=recompute))
    optimizer = SGD(0.1, momentum=0.9)
    inputs = task.inputs(2, SIZES, "float64")
    if parts == 1:
        program = mi.Program(training_step(task, optimizer), inputs, **layout)
    else:
        step = MicroBatches(task, optimizer, part_inputs(inputs, parts), parts, **layout)
        program = step.program
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(2):
        batch = {"image": rng.random((2, *SIZES, 1)), "labels": rng.integers(0, 3, (2, *SIZES)).astype(np.int32)}
        if parts > 1:
            split = {name: np.split(value, parts) for name, value in batch.items()}
            batch = {"parts": [{name: values[i] for name, values in split.items()} for i in range(parts)]}
        losses.append(float((program if parts == 1 else step)(**batch)["loss"]))
    return losses, {name: variable.numpy() for name, variable in program.variables.items()}


@pytest.fixture(scope="module")
def kept():
    return {parts: train(False, parts) for parts in (1, 2)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "parts"),
    [
        ("whole", 1),
        ("stacked", 1),
        ("placement", 1),
        ("gathered", 1),
        ("stacked", 2),
    ],
)
def test_training_equals_training_without_recomputation(kept, layout, parts):
    losses, variables = train(True, parts, **LAYOUTS[layout])
    np.testing.assert_allclose(losses, kept[parts][0], rtol=1e-9)
    assert variables.keys() == kept[parts][1].keys()
    for name, value in kept[parts][1].items():
        np.testing.assert_allclose(variables[name], value, rtol=0, atol=1e-9 * np.abs(value).max(), err_msg=name)
