"""The choices of a plan, one by one, as functions of fingerprints."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.fingerprint import FOREGROUND_PERCENTAGES, Fingerprint, Foreground, read_fingerprint
from mtf_imaging.data.intensities.schemes import WINDOW, Intensity
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.jobs.choices.network import batch_sizes, choose_levels, choose_loss, choose_network, pad_to_levels
from mtf_imaging.jobs.choices.recipe import (
    choose_augmentation,
    choose_crop,
    choose_intensities,
    choose_steps,
    choose_window,
)
from mtf_imaging.jobs.choices.spacing import choose_grid, choose_spacing
from mtf_imaging.models.unet3d import UNet3D
from tests.jobs.fingerprints import ORGANS, REGIONS, SMALL, fingerprint
from tests.jobs.test_inspecting import data_set


def test_the_spacing_of_isotropic_data_is_the_median():
    data = fingerprint((SMALL, (1.0, 1.0, 1.2)), (SMALL, (1.1, 1.1, 1.0)), (SMALL, (2.0, 2.0, 3.0)))
    assert choose_spacing(data).value == (1.1, 1.1, 1.2)


def test_the_coarsest_axis_of_anisotropic_data_has_a_low_percentile():
    thick, thin = ((512, 512, 40), (0.8, 0.8, 5.0)), ((512, 512, 160), (0.8, 0.8, 1.25))
    choice = choose_spacing(fingerprint(*[thick] * 8, *[thin] * 2))
    assert choice.value == (0.8, 0.8, 1.25)
    assert "10th percentile along z: the median of 5 mm" in choice.reason
    # Every case has thick slices, so there is no finer detail to keep.
    assert choose_spacing(fingerprint(*[thick] * 8)).value == (0.8, 0.8, 5.0)
    # Voxels are long along z, but there are as many of them as along x: nnU-Net does not treat this as anisotropic.
    long = ((64, 64, 64), (0.8, 0.8, 5.0)), ((64, 64, 64), (0.8, 0.8, 1.25))
    assert choose_spacing(fingerprint(*[long[0]] * 8, *[long[1]] * 2)).value == (0.8, 0.8, 5.0)


def test_the_percentile_is_not_finer_than_the_other_axes():
    thick, finer = ((512, 512, 40), (0.8, 0.8, 5.0)), ((512, 512, 600), (0.8, 0.8, 0.5))
    assert choose_spacing(fingerprint(*[thick] * 7, *[finer] * 3)).value == (0.8, 0.8, 0.8)


def test_the_grid_covers_every_case_of_a_small_data_set():
    data = fingerprint(((100, 90, 33), (1.0, 1.0, 2.0)), ((50, 120, 20), (1.0, 1.0, 2.0)))
    choice = choose_grid(data, (1.0, 1.0, 2.0))
    # 4 pools along x and y and 3 along z; 120 + 8 voxels are a multiple of 16, but 100 and 33 only of 8 and 4.
    assert choice.value == (104, 128, 36)
    assert choice.reason.endswith(
        "covers every case, and x 4, y 8, z 3 more voxels, so that more levels have even sizes"
    )


def test_one_huge_case_of_many_does_not_set_the_grid_but_its_labels_fit():
    usual, huge = ((100, 100, 100), (1.0, 1.0, 1.0)), ((100, 100, 900), (1.0, 1.0, 1.0))
    data = fingerprint(*[usual] * 300, huge)
    choice = choose_grid(data, (1.0, 1.0, 1.0))
    assert choice.value == (104, 104, 480)  # 450 mm of labels in the center, a voxel at each end, and padding
    assert "the margins of 1 large case" in choice.reason
    span = Sampling(choice.value, (1.0, 1.0, 1.0)).spans(*huge)[2]
    assert span.start <= 225
    assert span.start + span.length >= 675


def test_pictures_have_one_plane():
    flat = Description(("gray",), {"cell": 1}, {"cell": (1,)}, file_ending=".png")
    data = fingerprint(((500, 300, 1), (1.0, 1.0, 1.0)), description=flat)
    assert choose_grid(data, (1.0, 1.0, 1.0)).value == (512, 320, 1)
    network = choose_network((512, 320, 1), (1.0, 1.0, 1.0), 32)
    assert (network["depth"].value, network["max_filters"].value) == (7, 512)
    assert network["pool_sizes"].value == ((2, 2, 1),) * 6
    recipe = choose_augmentation(data, (512, 320, 1), (1.0, 1.0, 1.0))
    assert recipe["flips"].value == ("x", "y")
    assert recipe["rotation"].value == (0.0, 0.0, 15.0)
    assert recipe["low_resolution_axes"].value == ("x", "y")


# grid and spacing; the sizes along z of the kernels, and the pools, as nnU-Net plans them
LEVELS = [
    # 4 pools turn voxels of 0.625 x 0.625 x 3.6 mm into 10 x 10 x 14.4 mm; z then has 5 voxels.
    (
        *((320, 320, 20), (0.625, 0.625, 3.6)),
        (1, 1, 3, 3, 3, 3, 3),
        ("220", "220", "222", "222", "220", "220"),
    ),
    (*((128, 128, 128), (1.0, 1.0, 1.0)), (3,) * 6, ("222",) * 5),
    (*((512, 512, 512), (1.0, 1.0, 1.0)), (3,) * 7, ("222",) * 6),  # 8 voxels could be halved again
    (*((40, 40, 40), (1.0, 1.0, 2.0)), (1, 3, 3, 3), ("220", "222", "222")),  # exactly twice as long
    (*((64, 8, 8), (1.0, 1.0, 1.0)), (3,) * 4, ("222", "200", "200")),  # x ends at 8 voxels, less than 12
    (*((8, 7, 7), (1.0, 1.0, 1.0)), (3,), ()),
    (*((12, 7, 7), (1.0, 1.0, 1.0)), (3, 3), ("200",)),
]


@pytest.mark.parametrize(("grid", "spacing", "kernels", "pools"), LEVELS, ids=str)
def test_levels_are_those_of_nnunet(grid, spacing, kernels, pools):
    levels = choose_levels(grid, spacing)
    assert [kernel[2] for kernel in levels.kernel_sizes] == list(kernels)
    assert {kernel[:2] for kernel in levels.kernel_sizes} == {(3, 3)}
    assert levels.pool_sizes == tuple(tuple(2 if size == "2" else 1 for size in pool) for pool in pools)
    network = choose_network(grid, spacing, 32)
    UNet3D(**{name: choice.value for name, choice in network.items()})
    assert network["depth"].value == len(kernels)
    assert network["deep_supervision"].value == max(len(kernels) - 3, 0)


def test_no_plan_has_a_level_of_one_voxel():
    """A norm refuses it, because it would have only one value for its statistics."""
    for grid in itertools.product((1, 2, 3, 7, 8, 9, 13, 64, 300), repeat=3):
        for spacing in ((1.0, 1.0, 1.0), (0.5, 0.5, 5.0), (0.1, 1.0, 9.0)):
            strides = choose_levels(grid, spacing).strides
            voxels = math.prod(-(-size // stride) for size, stride in zip(grid, strides, strict=True))
            assert voxels > 1 or math.prod(grid) == 1


def test_padding_adds_at_most_a_tenth_and_keeps_the_levels():
    for grid, spacing in [((310, 310, 19), (0.625, 0.625, 3.6)), ((33, 65, 127), (1.0,) * 3), ((9, 9, 9), (1.0,) * 3)]:
        padded = pad_to_levels(grid, spacing)
        assert all(size <= more <= 1.1 * size for size, more in zip(grid, padded, strict=True))
        assert choose_levels(padded, spacing) == choose_levels(grid, spacing)
    assert pad_to_levels((310, 310, 19), (0.625, 0.625, 3.6)) == (320, 320, 20)
    assert pad_to_levels((9, 9, 9), (1.0,) * 3) == (9, 9, 9)  # 10 voxels would be 11% more


def test_a_batch_has_at_most_a_twentieth_of_the_cases():
    assert [batch_sizes(number) for number in (1, 2, 7, 5000)] == [[1], [2, 1], [2, 1], [8, 4, 2, 1]]
    assert [batch_sizes(number)[0] for number in (8, 79, 80, 159, 160)] == [2, 2, 4, 4, 8]


def test_all_labels_weigh_the_same():
    for description in (ORGANS, REGIONS):
        assert choose_loss(description)["class_weights"].value is None
    assert {name: choice.value for name, choice in choose_loss(LITS).items()} == {
        "class_weights": (1, 1, 1),
        "dice": "classes",
        "dice_weight": 0.5,
    }


def test_ignored_voxels_do_not_count():
    ignoring = Description(("CT",), {"spleen": 1}, {"spleen": (1,)}, ignore=2)
    data = fingerprint((SMALL, (1.0,) * 3), description=ignoring)
    assert data.frequency(1) == pytest.approx(9 / 99)


@pytest.mark.parametrize(
    ("names", "flips"),
    [
        (("left_kidney", "spleen"), ("y", "z")),
        (("Kidney Right",), ("y", "z")),
        (("kidney_l",), ("y", "z")),
        (("lkid", "rkid"), ("y", "z")),
        (("LeftKidney",), ("y", "z")),
        (("ctx-lh-precentral", "ctx-rh-precentral"), ("y", "z")),
        (("ctx-lh-precentral",), ("y", "z")),
        (("wm.rh",), ("y", "z")),
        (("lt_lung",), ("y", "z")),
        (("LungRt",), ("y", "z")),
        (("Niere links",), ("y", "z")),
        (("rechte_Niere",), ("y", "z")),
        (("linkes Auge",), ("y", "z")),
        (("rein_gauche",), ("y", "z")),
        (("rein droit",), ("y", "z")),
        (("oreille droite",), ("y", "z")),
        (("pulmon_izquierdo",), ("y", "z")),
        (("rene_sinistro",), ("y", "z")),
        (("rene dx",), ("y", "z")),
        (("rim_direito",), ("y", "z")),
        (("kidney_r",), ("y", "z")),
        (("Kidney-L",), ("y", "z")),
        (("KidneyR",), ("y", "z")),
        (("lung (L)",), ("y", "z")),
        (("leftkidney", "rightkidney"), ("y", "z")),
        (("femur_left1",), ("y", "z")),
        (("l1", "r1"), ("y", "z")),
        (("LV", "RV"), ("y", "z")),
        (("vertebrae_L1", "vertebrae_L2"), ("x", "y", "z")),
        (("cleft", "bright"), ("x", "y", "z")),
        (("liver",), ("x", "y", "z")),
    ],
)
def test_labels_that_name_a_side_are_not_mirrored(names, flips):
    labels = {name: value for value, name in enumerate(names, 1)}
    description = Description(("CT",), labels, {name: (value,) for name, value in labels.items()})
    data = fingerprint((SMALL, (1.0,) * 3), description=description)
    choice = choose_augmentation(data, SMALL, (1.0,) * 3)["flips"]
    assert choice.value == flips
    assert (names[0] in choice.reason) == ("x" not in flips)


BLOCKS = np.s_[1:4, 2:6, 2:4], np.s_[8:11, 2:6, 2:4]  # on the left and on the right of 12 x 8 x 6 voxels
ABOVE, LARGE = np.s_[8:11, 2:6, 4:6], np.s_[6:12, :, :]


def placed(tmp_path, names, *cases):
    """Returns the sides of a data set whose cases have each label in a block."""
    masks = []
    for blocks in cases:
        masks.append(np.zeros((12, 8, 6), np.uint8))
        for label, block in enumerate(blocks, 1):
            masks[-1][block] = label
    read = read_fingerprint(data_set(tmp_path / "d", masks, names), progress=False)
    choice = choose_augmentation(read, (12, 8, 6), (1.0,) * 3)["flips"]
    return "x" not in choice.value, choice.reason


def test_labels_that_mirror_each_other_in_nearly_all_cases_are_not_mirrored(tmp_path):
    kept, reason = placed(tmp_path / "same", ("a", "b"), *[BLOCKS] * 10, BLOCKS[::-1])
    assert kept
    assert placed(tmp_path / "halves", ("a", "b"), *[(np.s_[4:6, 2:6, 2:4], np.s_[6:8, 2:6, 2:4])] * 2)[0]
    assert reason == (
        "not along x, which would swap left and right: labels mirror each other in nearly all cases (a and b)"
    )
    for number, cases in enumerate(
        [
            [BLOCKS] * 4 + [BLOCKS[::-1]],  # in 80%
            [BLOCKS, BLOCKS[1:]],  # only one case has both
            [(BLOCKS[0], ABOVE)] * 2,
            [(BLOCKS[0], LARGE)] * 2,
            [(np.s_[4:8, 2:6, 1:5], np.s_[5:8, 2:6, 2:4])] * 2,  # one around the other, slightly off the middle
            [(BLOCKS[1], np.s_[6:8, 2:6, 2:4])] * 2,  # both on the right
            [(BLOCKS[0], np.s_[6:8, 2:6, 2:4])] * 2,  # one of them in the middle
        ]
    ):
        kept, reason = placed(tmp_path / str(number), ("a", "b"), *cases)
        assert not kept, number
        assert reason.startswith("no label names a side, and no two mirror each other, so mirrored anatomy")


def test_names_of_sides_count_unless_the_cases_contradict_each_other(tmp_path):
    names = ("nodule_l", "nodule_r")
    for number, cases in enumerate([[BLOCKS, BLOCKS[::-1]], [BLOCKS[::-1]] * 3, [*[BLOCKS] * 6, *[BLOCKS[::-1]] * 2]]):
        assert placed(tmp_path / str(number), names, *cases)[0], number
    kept, reason = placed(tmp_path / "both", names, *[BLOCKS] * 3, *[BLOCKS[::-1]] * 2)
    assert not kept
    assert reason.startswith(
        "labels have names of sides (nodule_l, nodule_r), but in 2 of 5 cases they lie on the other side than in the "
        "rest, as `inspect` shows, so mirrored"
    )
    assert not placed(tmp_path / "one", ("nodule_l",), *[BLOCKS[:1], BLOCKS[1:]] * 2)[0]
    # The field of view is not centered, so a left ventricle may lie in its right half.
    hearts = [[np.s_[x : x + 2, 2:6, 2:4], np.s_[x + 3 : x + 5, 2:6, 2:4]] for x in (4, 7)]
    assert placed(tmp_path / "heart", ("LV", "RV"), *hearts * 2)[0]


def test_rotations_are_those_of_nnunet():
    data = fingerprint((SMALL, (1.0,) * 3))

    def rotation(grid, spacing):
        return choose_augmentation(data, grid, spacing)["rotation"].value

    thick = choose_augmentation(data, (10, 40, 40), (5.0, 1.0, 1.0))
    assert (thick["blur"].value, thick["low_resolution"].value) == (0.1, 0.125)
    assert thick["low_resolution_axes"].value == ("y", "z")
    assert "low_resolution_axes" not in choose_augmentation(data, (40, 40, 14), (1.0, 1.0, 5.0))
    assert rotation((320, 320, 20), (0.6, 0.6, 3.6)) == (0.0, 0.0, 180.0)
    assert rotation((10, 40, 40), (5.0, 1.0, 1.0)) == (180.0, 0.0, 0.0)
    assert rotation((40, 40, 14), (1.0, 1.0, 5.0)) == 30.0  # less than 3 times fewer
    assert rotation((60, 40, 1), (1.0,) * 3) == (0.0, 0.0, 180.0)
    assert rotation((61, 40, 1), (1.0,) * 3) == (0.0, 0.0, 15.0)
    for description in (ORGANS, REGIONS):
        augmentation = choose_augmentation(fingerprint((SMALL, (1.0,) * 3), description=description), SMALL, (1.0,) * 3)
        mi.data.Augmentation(**{name: one.value for name, one in augmentation.items()})


def test_a_training_sees_as_many_voxels_as_that_of_nnunet():
    def steps(batch, volume, patch=None):
        return choose_steps(100, batch, (volume,) * 3, (patch or volume,) * 3)

    assert [steps(*given).value for given in ((2, 64), (2, 512, 128), (1, 256), (2, 256), (1, 1024))] == [
        250_000,
        250_000,
        62_500,
        31_200,
        4_000,
    ]
    assert steps(2, 64).reason == "as in Isensee et al. 2021; each voxel is seen 5,000 times on average"
    assert steps(2, 512, 128).reason.endswith("each voxel is seen 78 times on average")
    assert "the voxels of 250,000 steps on 2 patches of 128^3 voxels" in steps(1, 256).reason
    assert steps(1, 1024).reason.startswith("the fewest steps of a plan")


def test_the_window_of_a_ct_is_the_range_of_the_labeled_voxels():
    choice = choose_window(fingerprint((SMALL, (1.0,) * 3)))
    assert choice.value == (-35.0, 125.0)
    assert "percentiles 0.5 and 99.5 of the labeled voxels, -31 and 121 HU, as in Isensee et al. 2021" in choice.reason
    assert choose_window(fingerprint((SMALL, (1.0,) * 3), description=LITS)).value == (-35.0, 125.0)


def test_a_window_that_the_data_set_names_is_kept():
    named = dataclasses.replace(ORGANS, intensities=(Intensity(WINDOW, (-160.0, 240.0)),))
    assert choose_window(fingerprint((SMALL, (1.0,) * 3), description=named)) is None
    assert choose_window(fingerprint((SMALL, (1.0,) * 3), description=REGIONS)) is None


def test_labeled_voxels_of_one_value_have_the_default_window():
    data = fingerprint((SMALL, (1.0,) * 3))
    constant = Foreground(7, 0, (7.0,) * len(FOREGROUND_PERCENTAGES))
    case = dataclasses.replace(data.cases[0], foreground=(constant,))
    choice = choose_window(Fingerprint(ORGANS, (case,)))
    assert choice.value == (-512.0, 512.0)
    assert choice.reason == "HU, the default, because all labeled voxels have 7 HU"


def stripped(share, description=REGIONS, sizes=(20, 20, 20)):
    """Two cases whose nonzero voxels have a share of the planes along x."""
    box = ((0, round(sizes[0] * share)), *((0, n) for n in sizes[1:]))
    return fingerprint((sizes, (1.0,) * 3), (sizes, (1.0,) * 3), description=description, nonzero=box)


def test_a_removed_background_is_cropped_below_three_quarters_of_the_volume():
    assert [choose_crop(stripped(share)).value for share in (0.5, 0.7, 0.75, 1)] == [True, True, False, False]
    assert choose_crop(stripped(0.7)).reason.startswith(
        "the box of the nonzero voxels has 70% of the median case, less"
    )
    assert not choose_crop(stripped(0.5, LITS)).value  # 0 HU is water
    assert choose_grid(stripped(0.5), (1.0,) * 3).value == (20, 20, 20)
    assert choose_grid(stripped(0.5).cropped, (1.0,) * 3).value == (10, 20, 20)
    named = dataclasses.replace(REGIONS, intensities=(Intensity("percentiles"), Intensity("z-score")))
    assert choose_intensities(stripped(0.5, named)).value == {"FLAIR": "z-score of nonzero voxels"}


def test_labels_of_a_cropped_case_move_with_it():
    (case, _) = stripped(0.5).cases
    case = dataclasses.replace(case, nonzero=((4, 14), (0, 20), (10, 20)), labeled=((2, 10), (6, 8), (0, 5)))
    assert dataclasses.replace(case, middles={1: (0.5, 0.5, 0.75)}).cropped.middles == {1: (0.6, 0.5, 0.5)}
    assert case.labeled_mm == (16, 8, 20)
    assert case.cropped.shape == (10, 20, 10)
    assert case.cropped.labeled_mm == (10, 8, 0)  # z: no label in the box
