"""The graph of a training step: equal slices have no masks, and every operation has a kernel for GPUs."""

import pytest

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adafactor, Adam
from mtf_imaging.training.step import training_step
from tests.engine.meshes.even_graphs import CPUS, check_nodes
from tests.engine.meshes.test_gpus import has_gpu_kernels, without_gpu_kernel


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "mesh_shape", "layout", "mesh_impl", "num_devices"),
    [
        ("batch", "", "", "stacked", 1),
        ("batch", "rows:2,cols:2", "x:rows,y:cols", "stacked", 1),
        ("instance", "rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked", 1),
        ("batch", "rows:2,cols:2", "x:rows,y:cols", "placement", 4),
        ("group", "rows:2,cores:2", "x:rows,batch:cores", "placement", 2),
    ],
)
def test_equal_slices_have_no_masks(norm, mesh_shape, layout, mesh_impl, num_devices):
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm=norm, norm_groups=2, dropout_rate=0.5))
    step, inputs = training_step(task, Adam(0.1)), task.inputs(2, (8, 8, 4))
    check_nodes(lambda: mi.Program(step, inputs, mesh_shape, layout, mesh_impl, CPUS[:num_devices]).num_nodes)


@has_gpu_kernels
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "optimizer", "options"),
    [("float32", Adam(), {}), ("bfloat16", Adafactor(), {"recompute": True, "gather_below": 4})],
)
def test_a_training_step_has_gpu_kernels_throughout(dtype, optimizer, options):
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=1, convs=1, **options))
    inputs = task.inputs(2, (8, 8, 4), dtype)
    p = mi.Program(training_step(task, optimizer), inputs, "rows:2,cols:2", "x:rows,y:cols", "stacked")
    assert without_gpu_kernel(p) == set()
