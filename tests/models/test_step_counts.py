"""The number of operations and exchanges in a training step of the U-Net, as a substitute for measuring its time."""

import collections

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.meshes.transport import InProcess
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step

# Unique sizes: slices (18 x 22, and 9 x 11 at the lower level) and widened slices have other sizes.
SIZES, MESH, LAYOUT, PARTS = (54, 66, 16), "rows:3,cols:3", "x:rows,y:cols", 3
WHOLE = {54, 66, 27, 33}
DEPTH, CONVS, FILTERS = 2, 2, 2


def step(mesh_shape, sizes=SIZES, mesh_impl="stacked", devices=None):
    task = LiverTumorSegmentation(UNet3D(base_filters=FILTERS, depth=DEPTH, convs=CONVS, dropout_rate=0.5))
    return mi.Program(training_step(task, SGD(0.1)), task.inputs(1, sizes), mesh_shape, LAYOUT, mesh_impl, devices)


def convolutions():
    """Returns (level, input channels, output channels) of each 3 x 3 x 3 convolution."""
    rows, levels = [], [*range(DEPTH), *reversed(range(DEPTH - 1))]
    for place, level in enumerate(levels):
        filters = FILTERS * 2**level
        # The input is the image, the level above, or the skip connection and the level below.
        inputs = 1 if place == 0 else filters // 2 if place < DEPTH else 2 * filters
        rows += [(level, inputs if i == 0 else filters, filters) for i in range(CONVS)]
    return rows


@pytest.fixture(scope="module")
def program():
    return step(MESH)


@pytest.fixture(scope="module")
def exchange_sizes():
    """The number of values in each message of the processor in the middle, with one device for each processor."""
    sizes, exchange, middle = [], InProcess.exchange, PARTS**2 // 2

    def counted(self, messages, dtype):
        sizes.extend(int(np.prod(message.shape)) for message in messages if message.source == middle)
        return exchange(self, messages, dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcess, "exchange", counted)
        step(MESH, mesh_impl="placement", devices=["/device:CPU:0"] * PARTS**2)
    return sizes


def tensors(program):
    """Returns (operation type, shape) of every tensor whose shape is fully defined."""
    shapes = ((op.type, t.shape) for op in program.function.graph.get_operations() for t in op.outputs)
    return [(kind, shape.as_list()) for kind, shape in shapes if shape.is_fully_defined()]


@pytest.mark.slow
def test_every_convolution_exchanges_a_halo_forward_and_one_backward(exchange_sizes):
    """There are two neighbors along each of two dimensions. Other operations do not exchange halos."""
    assert len(exchange_sizes) == 2 * 2 * (2 * len(convolutions()) - 1)  # The image has no gradient.


@pytest.mark.slow
def test_a_halo_is_one_voxel_wide(exchange_sizes):
    """A processor sends the faces of its slice: all input channels forward, and all output channels backward."""
    want = 0
    for level, inputs, filters in convolutions():
        x, y, z = (n // parts // 2**level for n, parts in zip(SIZES, (PARTS, PARTS, 1), strict=True))
        # Halos are exchanged along x first, and then along y including the halos along x. The image has no gradient.
        want += 2 * (y * z + (x + 2) * z) * (inputs + filters * (inputs > 1))
    assert sum(exchange_sizes) == want


@pytest.mark.slow
def test_split_tensors_are_never_gathered(program):
    whole = collections.Counter(kind for kind, shape in tensors(program) if WHOLE & set(shape))
    assert whole["Placeholder"] == 2, "the search finds whole tensors: the image and the labels"
    assert set(whole) <= {"Placeholder", "Identity"}


def test_a_halo_is_a_pad_and_a_gather_without_zeros_of_the_size_of_a_slice(program):
    """TensorFlow's gradient of slicing and concatenating a halo would add whole slices of zeros."""
    smallest = np.prod(SIZES) // 2**3  # voxels of one channel of all slices of the lower level
    zeros = ("Pad", "PadV2", "ZerosLike", "Fill")
    counts = collections.Counter(
        kind for kind, shape in tensors(program) if kind in zeros and np.prod(shape) >= smallest
    )
    assert counts == {"PadV2": 2 * len(convolutions()) - 1}
    wide = [[n // PARTS // 2**level + 2 for n in SIZES[:2]] for level in range(DEPTH)]
    gathered = [shape for kind, shape in tensors(program) if kind == "GatherV2" and shape[2:4] in wide]
    assert len(gathered) == 2 * len(convolutions()) - 1


def test_the_graph_does_not_grow_with_the_mesh(program):
    assert abs(step("rows:16,cols:16", (64, 64, 16)).num_nodes - program.num_nodes) < 0.005 * program.num_nodes
