"""What a step of training the U-Net takes, counted: the clock of a test machine says little, these numbers do."""

import collections

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.meshes import BlockMeshImpl
from mtf_imaging.models.unet3d import Task, UNet3D
from mtf_imaging.training.optimizers.optimizers import SGD
from mtf_imaging.training.step import training_step

# Sizes that nothing else has: not the slices (18 x 22, and 9 x 11 below), nor the widened ones.
SIZES, MESH, LAYOUT, PARTS = (54, 66, 16), "rows:3,cols:3", "x:rows,y:cols", 3
WHOLE = {54, 66, 27, 33}
DEPTH, CONVS, FILTERS = 2, 2, 2


def step(mesh_shape, sizes=SIZES, mesh_impl="stacked", devices=None):
    task = Task(UNet3D(base_filters=FILTERS, depth=DEPTH, convs=CONVS, keep_prob=0.5))
    return mi.Program(training_step(task, SGD(0.1)), task.inputs(1, sizes), mesh_shape, LAYOUT, mesh_impl, devices)


def convolutions():
    """(level, input channels, output channels) of each convolution of 3 x 3 x 3."""
    found, levels = [], [*range(DEPTH), *reversed(range(DEPTH - 1))]
    for place, level in enumerate(levels):
        filters = FILTERS * 2**level
        # From the image; from the level above; from the level below, grown to this one's filters, and the skip.
        inputs = 1 if place == 0 else filters // 2 if place < DEPTH else 2 * filters
        found += [(level, inputs if i == 0 else filters, filters) for i in range(CONVS)]
    return found


@pytest.fixture(scope="module")
def built():
    return step(MESH)


@pytest.fixture(scope="module")
def sent():
    """Of each exchange the number of values that one processor sends, where each has a device of its own."""
    sent, receive = [], BlockMeshImpl.receive

    def counted(self, x, *args, **kwargs):
        sent.append(int(np.prod(x.to_laid_out_tensor().slice_shape)))
        return receive(self, x, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockMeshImpl, "receive", counted)
        step(MESH, mesh_impl="placement", devices=["/device:CPU:0"] * PARTS**2)
    return sent


def tensors(program):
    """(operation type, shape) of every tensor of known shape."""
    found = ((op.type, t.shape) for op in program.function.graph.get_operations() for t in op.outputs)
    return [(kind, shape.as_list()) for kind, shape in found if shape.is_fully_defined()]


def test_every_convolution_exchanges_a_halo_forward_and_one_backward(sent):
    """Two neighbours along each of two dimensions; pools, norms and transposed convolutions ask no neighbour."""
    assert len(sent) == 2 * 2 * (2 * len(convolutions()) - 1)  # but to the image, of which nobody asks a gradient


def test_a_halo_is_one_voxel_wide(sent):
    """Sent are a slice's faces, in the channels that go in, and of the gradient those that come out."""
    want = 0
    for level, inputs, filters in convolutions():
        x, y, z = (n // parts // 2**level for n, parts in zip(SIZES, (PARTS, PARTS, 1), strict=True))
        # Along x first, then along y with the edges that came along x. Nobody asks for the image's gradient.
        want += 2 * (y * z + (x + 2) * z) * (inputs + filters * (inputs > 1))
    assert sum(sent) == want


def test_nothing_split_is_put_together_again(built):
    whole = collections.Counter(kind for kind, shape in tensors(built) if WHOLE & set(shape))
    assert whole["Placeholder"] == 2, "the search finds whole tensors: the image and the labels"
    assert set(whole) <= {"Placeholder", "Identity"}


def test_a_halo_is_a_pad_and_a_gather_and_zeros_of_a_slices_size_are_never_made(built):
    """TensorFlow's own gradient of a halo that is cut and concatenated would be sums of slices full of zeros."""
    smallest = np.prod(SIZES) // 2**3  # voxels of all slices of the lower level: as one channel of them
    zeros = ("Pad", "PadV2", "ZerosLike", "Fill")
    made = collections.Counter(kind for kind, shape in tensors(built) if kind in zeros and np.prod(shape) >= smallest)
    assert made == {"PadV2": 2 * len(convolutions()) - 1}
    wide = [[n // PARTS // 2**level + 2 for n in SIZES[:2]] for level in range(DEPTH)]
    gathered = [shape for kind, shape in tensors(built) if kind == "GatherV2" and shape[2:4] in wide]
    assert len(gathered) == 2 * len(convolutions()) - 1


def test_a_larger_mesh_makes_no_larger_graph(built):
    assert abs(step("rows:16,cols:16", (64, 64, 16)).num_nodes - built.num_nodes) < 0.005 * built.num_nodes
