"""The receptive field equals the voxels with a gradient, for a network without statistics of the image."""

import dataclasses

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.models.deeplab import DeepLab, SemanticSegmentation
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from mtf_imaging.planner.cost.receptive_field import ReceptiveField, receptive_field
from mtf_imaging.planner.render.field_text import field_notices
from tests.models.tiny_backbone import TinyBackbone

CUBE = (("x", 256), ("y", 256), ("z", 256))
SMALL = UNet3D(base_filters=1, convs=1, norm="none", dropout_rate=0.0)
NETWORKS = {
    "two levels": dataclasses.replace(SMALL, depth=2),
    "three levels": dataclasses.replace(SMALL, depth=3),
    "pools per axis": dataclasses.replace(
        SMALL, depth=3, kernel_sizes=((3, 1, 3), (3, 3, 3), (3, 3, 3)), pool_sizes=((2, 1, 2), (2, 2, 2))
    ),
    "residual": dataclasses.replace(SMALL, depth=2, residual=True),
}


def field(network, dims=CUBE):
    return receptive_field(Segmentation(network, labels=1), dims)


def voxels_with_gradients(network, axis, size=40):
    """Returns the largest number of voxels, from the first to the last, with a gradient of one voxel of the output."""
    sizes = [size if name == axis else 1 for name in "xyz"]

    def fn(image, at):
        return mi.mtf.gradients([mi.mtf.reduce_sum(network(image, is_training=False) * at)], [image])[0]

    shape = "batch:1," + ",".join(f"{name}:{n}" for name, n in zip("xyz", sizes))
    program = mi.Program(fn, {"image": (f"{shape},channels:1", "float64"), "at": (f"{shape},classes:3", "float64")})
    for variable in program.variables.values():
        variable.assign(np.ones_like(variable.numpy()))  # so that no two paths cancel
    widest = 0
    for voxel in range(size):
        at = np.zeros((1, *sizes, 3))
        at.reshape(size, 3)[voxel] = 1
        # Max pools pass gradients to the largest voxel only, so several images show all voxels that can matter.
        hit = np.zeros(size, bool)
        for seed in range(12):
            image = np.random.default_rng(seed).random((1, *sizes, 1))
            hit |= program(image=image, at=at).numpy().ravel() != 0
        found = np.flatnonzero(hit)
        widest = max(widest, found[-1] - found[0] + 1)
    return widest


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_field_equals_the_voxels_with_gradients(name):
    network = NETWORKS[name]
    for axis, voxels in field(network).voxels.items():
        assert voxels == voxels_with_gradients(network, axis)


@pytest.mark.parametrize(("depth", "voxels"), [(1, 5), (2, 18), (4, 100), (5, 204)])
def test_the_field_of_the_network_of_the_paper(depth, voxels):
    found = receptive_field(LiverTumorSegmentation(UNet3D(depth=depth)), CUBE)
    assert found.voxels == {"x": voxels, "y": voxels, "z": voxels}
    assert not found.covers_image


def test_an_axis_that_is_not_pooled_sees_less():
    network = UNet3D(depth=3, kernel_sizes=((3, 3, 1), (3, 3, 3), (3, 3, 3)), pool_sizes=((2, 2, 1), (2, 2, 2)))
    found = field(network)
    assert found.voxels["x"] == found.voxels["y"] == field(UNet3D(depth=3)).voxels["x"]
    assert found.voxels["z"] == 18  # as two levels with kernels of 3


def test_images_of_one_plane_and_2d_networks():
    assert field(UNet3D(depth=2), (("x", 64), ("y", 64), ("z", 1))).voxels == {"x": 18, "y": 18, "z": 1}
    assert field(UNet3D(depth=2), (("x", 64), ("y", 64))).voxels == {"x": 18, "y": 18}


def test_the_field_covers_small_images():
    assert field(UNet3D(depth=4), (("x", 100), ("y", 90), ("z", 30))).covers_image
    assert not field(UNet3D(depth=4), (("x", 101), ("y", 90), ("z", 30))).covers_image


def test_the_text_states_voxels_and_millimeters():
    found = ReceptiveField({"x": 100, "y": 50}, {"x": 200, "y": 60})
    assert str(found) == "100 x 50 of 200 x 60 voxels"
    found = dataclasses.replace(found, spacing=(1.5, 2.0))
    assert str(found) == "100 x 50 of 200 x 60 voxels, 150 x 100 of 300 x 120 mm"


def test_networks_that_interpolate_are_left_out():
    network = DeepLab(TinyBackbone(), filters=2, low_level_filters=2, decoder_filters=2, decoder_convs=1)
    assert receptive_field(SemanticSegmentation(network, classes=3), (("height", 64), ("width", 64))) is None


def test_statistics_of_the_whole_input_are_noticed():
    norms = {norm: field(UNet3D(base_filters=4, depth=2, norm=norm)).statistics for norm in ("instance", "none")}
    assert norms == {"instance": True, "none": False}


def test_a_voxel_sees_at_most_the_patch():
    found = ReceptiveField({"x": 100, "y": 18}, {"x": 200, "y": 60}, (1.5, 2.0), {"x": 64, "y": 40})
    assert found.seen == {"x": 64, "y": 18}
    assert found.compare(found.seen, found.image) == "64 x 18 of 200 x 60 voxels, 96 x 36 of 300 x 120 mm"
    assert (found.narrow, found.cut, found.covers_image) == (["y"], ["x"], False)
    narrow, cut = field_notices(found)
    assert narrow.startswith("the network sees less than half of the patch: 18 of 40 voxels along y. Fix: use more")
    assert cut.startswith("the patch has less than half of the image: 64 of 200 voxels along x. Structures further")
    assert "further apart than 96 mm along x are never seen together. Fix: use a larger patch" in cut
    noticed = list(field_notices(dataclasses.replace(found, statistics=True)))
    assert "; norms add only statistics of the whole input" in noticed[0]
    assert "never seen together, not even by statistics of norms" in noticed[1]
    half = dataclasses.replace(found, voxels={"x": 32, "y": 20}, patch={"x": 64, "y": 40}, image={"x": 128, "y": 80})
    assert list(field_notices(half)) == []


@pytest.mark.parametrize(("depth", "covers"), [(2, False), (5, True)])
def test_explain_reports_the_field(depth, covers):
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=depth))
    explained = mi.jobs.explain(task=task, resolution="x:40,y:32,z:16", spacing=2)
    lines = mi.jobs.report(explained).splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("receptive field: "))
    assert lines[at].endswith(
        " of 40 x 32 x 16 voxels, " + ("408 x 408 x 408" if covers else "36 x 36 x 36") + " of 80 x 64 x 32 mm"
    )
    notice = "  notice: the network sees less than half of the image: 18 of 40 voxels along x. Fix: use more levels"
    assert lines[at + 1].startswith(notice) is not covers
