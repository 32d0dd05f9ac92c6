"""Brain phantoms: their anatomy, their contrasts, and their files in the formats of nnU-Net and the Decathlon."""

import json

import nibabel
import numpy as np
import pytest
from scipy import ndimage

from mtf_imaging.cli.main import main
from mtf_imaging.data.description.dataset_json import read_description
from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.phantom.brain import EDEMA, ENHANCING, FLAIR, NECROSIS, T1GD
from mtf_imaging.data.phantom.kinds import BRAIN_TUMORS, KINDS
from mtf_imaging.data.phantom.phantom import STORED_AS, make_case, write_phantom
from mtf_imaging.errors import ConfigError, DataError

NUMBER = 5  # of cases: one for each stored orientation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five cases in the format of nnU-Net."""
    path = tmp_path_factory.mktemp("brain")
    assert write_phantom(path, NUMBER, seed=0, kind="brain") == [f"brain_00{n}" for n in range(NUMBER)]
    return path


@pytest.fixture(scope="module")
def patients():
    """The images `[2, x, y, z]` and labels of five patients, in canonical axes."""
    painted = [KINDS["brain"].paint(np.random.default_rng([0, number])) for number in range(NUMBER)]
    return [(np.stack(patient.channels), patient.labels, patient.spacing) for patient in painted]


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_the_folder_has_the_form_of_nnunet(folder):
    names = [f"brain_00{n}" for n in range(NUMBER)]
    images = [f"imagesTr/{name}_000{channel}.nii.gz" for name in names for channel in (0, 1)]
    assert files(folder) == ["dataset.json", *images, *(f"labelsTr/{name}.nii.gz" for name in names)]
    fields = json.loads((folder / "dataset.json").read_text())
    assert fields["channel_names"] == {"0": "T1gd", "1": "FLAIR"}
    assert list(fields["labels"].items()) == [  # in the order in which regions are painted over each other
        ("background", 0),
        ("whole_tumor", [1, 2, 3]),
        ("tumor_core", [2, 3]),
        ("enhancing_tumor", 3),
    ]
    assert fields["regions_class_order"] == [1, 2, 3]
    assert (fields["numTraining"], fields["file_ending"]) == (NUMBER, ".nii.gz")


@pytest.mark.slow
def test_both_formats_describe_the_same_data(folder, tmp_path):
    description = read_description(folder)
    assert description == BRAIN_TUMORS
    assert [str(intensity) for intensity in description.intensities] == ["z-score of nonzero voxels"] * 2
    write_phantom(tmp_path, 1, seed=0, kind="brain", file_format="decathlon")
    decathlon = read_description(tmp_path)
    for name in ("channels", "labels", "intensities"):
        assert getattr(decathlon, name) == getattr(BRAIN_TUMORS, name)
    assert decathlon.region_order is None


def test_the_folder_has_the_form_of_the_decathlon(folder, tmp_path):
    assert write_phantom(tmp_path, 2, seed=0, kind="brain", file_format="decathlon") == ["brain_000", "brain_001"]
    names = ["brain_000.nii.gz", "brain_001.nii.gz"]
    paths = [f"{part}/{name}" for part in ("imagesTr", "labelsTr") for name in names]
    assert files(tmp_path) == ["dataset.json", *paths]
    fields = json.loads((tmp_path / "dataset.json").read_text())
    assert fields["modality"] == {"0": "T1gd", "1": "FLAIR"}
    assert fields["labels"] == {"0": "background", "1": "edema", "2": "necrosis", "3": "enhancing_tumor"}
    assert fields["numTraining"] == 2
    assert fields["tensorImageSize"] == "4D"
    assert fields["training"] == [{"image": f"./imagesTr/{n}", "label": f"./labelsTr/{n}"} for n in names]
    stacked = nibabel.load(tmp_path / "imagesTr" / "brain_001.nii.gz")
    for channel in range(2):  # the same voxels as in the format of nnU-Net, with the channels last
        single = nibabel.load(folder / "imagesTr" / f"brain_001_000{channel}.nii.gz")
        np.testing.assert_array_equal(np.asarray(stacked.dataobj)[..., channel], np.asarray(single.dataobj))
        np.testing.assert_array_equal(stacked.affine, single.affine)
    assert stacked.get_data_dtype() == np.int16
    label = tmp_path / "labelsTr" / "brain_001.nii.gz"
    assert label.read_bytes() == (folder / "labelsTr" / "brain_001.nii.gz").read_bytes()


def test_files_of_a_case_share_a_grid_and_cases_differ(folder):
    grids = []
    for number, codes in enumerate(STORED_AS):
        names = [f"imagesTr/brain_00{number}_000{channel}.nii.gz" for channel in (0, 1)]
        t1gd, flair, labels = (nibabel.load(folder / name) for name in (*names, f"labelsTr/brain_00{number}.nii.gz"))
        for image in (flair, labels):
            assert image.shape == t1gd.shape
            np.testing.assert_array_equal(image.affine, t1gd.affine)
        assert "".join(nibabel.aff2axcodes(t1gd.affine)) == codes
        assert t1gd.get_data_dtype() == flair.get_data_dtype() == np.int16
        grids.append((sorted(t1gd.shape), sorted(t1gd.header.get_zooms())))
    for position, grid in enumerate(grids):
        assert grid not in grids[:position]
    assert all(min(shape) >= 90 and max(shape) <= 128 and 1.3 < zooms[0] <= zooms[2] < 1.7 for shape, zooms in grids)


def test_a_case_is_a_function_of_seed_and_number(folder):
    again = make_case(0, 3, "brain")
    names = ["imagesTr/brain_003_0000", "imagesTr/brain_003_0001", "labelsTr/brain_003"]
    for image, name in zip(again, names, strict=True):
        written = nibabel.load(folder / f"{name}.nii.gz")
        np.testing.assert_array_equal(np.asarray(image.dataobj), np.asarray(written.dataobj))
    assert make_case(1, 3, "brain")[0].to_bytes() != again[0].to_bytes()


@pytest.mark.slow
def test_an_interrupted_folder_is_completed_and_other_files_are_kept(tmp_path):
    write_phantom(tmp_path, 1, seed=0, kind="brain")
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    (tmp_path / "dataset.json").unlink()
    (tmp_path / "imagesTr" / "brain_000_0001.nii.gz").unlink()
    write_phantom(tmp_path, 1, seed=0, kind="brain")
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before
    with pytest.raises(DataError, match=r"brain_000_0000\.nii\.gz: the contents of this file differ from"):
        write_phantom(tmp_path, 1, seed=1, kind="brain")
    with pytest.raises(DataError, match=r"contains 2 file\(s\) of cases other than 0\.\.0, such as imagesTr/brain_000"):
        write_phantom(tmp_path, 1, seed=0, kind="brain", file_format="decathlon")
    (tmp_path / "dataset.json").write_text("{}")
    with pytest.raises(DataError, match=r"dataset\.json: the contents of this file differ"):
        write_phantom(tmp_path, 1, seed=0, kind="brain")
    assert (tmp_path / "dataset.json").read_text() == "{}"


@pytest.mark.slow
def test_the_skull_is_removed(patients):
    for images, labels, _ in patients:
        brain = images[T1GD] != 0
        np.testing.assert_array_equal(brain, images[FLAIR] != 0)
        assert images.min() == 0
        assert 0.2 < brain.mean() < 0.7
        assert ndimage.label(brain)[1] == 1
        assert not labels[~brain].any()
        assert not brain[[0, -1]].any()
        assert not brain[:, :, -1].any()  # the brain stem reaches the lowest plane


@pytest.mark.slow
def test_every_patient_has_a_tumor_with_nested_regions(patients):
    volumes = []
    for _, labels, spacing in patients:
        assert set(np.unique(labels)) == {0, EDEMA, NECROSIS, ENHANCING}
        regions = [np.isin(labels, values) for values in BRAIN_TUMORS.masks.values()]
        ml = [region.sum() * np.prod(spacing) / 1000 for region in regions]
        assert 20 < ml[0] < 260
        assert ml[0] > ml[1] > ml[2] > 5
        # The necrosis lies inside the rim.
        beside_necrosis = ndimage.binary_dilation(labels == NECROSIS) & (labels != NECROSIS)
        assert (labels[beside_necrosis] == ENHANCING).mean() > 0.75
        volumes.append(ml[0])
    assert max(volumes) > 1.5 * min(volumes)


def best_dice(intensities, region):
    """Returns the Dice of the best rule that decides each voxel by its intensities alone.

    Args:
      intensities: list of arrays `[n]` in standard deviations, one per channel that the rule may read.
      region: bool `[n]`.
    """
    bins = [np.clip(((channel + 4) * 8).astype(int), 0, 79) for channel in intensities]
    codes = sum(channel * 80**position for position, channel in enumerate(bins))
    total, inside = np.bincount(codes), np.bincount(codes, weights=region)
    order = np.argsort(-inside / np.maximum(total, 1))  # Dice is largest for a set of the bins with the highest share
    return (2 * np.cumsum(inside[order]) / (np.cumsum(total[order]) + region.sum())).max()


def test_no_single_channel_suffices(patients):
    normalized, tissue = [[], []], []
    for images, labels, _ in patients:
        brain = images[T1GD] != 0
        tissue.append(labels[brain])
        for channel, image in zip(normalized, images, strict=True):
            channel.append((image[brain] - image[brain].mean()) / image[brain].std())
    t1gd, flair = (np.concatenate(channel) for channel in normalized)
    labels = np.concatenate(tissue)
    whole, core, enhancing = (np.isin(labels, values) for values in BRAIN_TUMORS.masks.values())
    assert best_dice([t1gd], whole) < 0.5
    assert best_dice([flair], core) < 0.5
    assert best_dice([flair], enhancing) < 0.5
    for region in (whole, core, enhancing):
        alone = max(best_dice([t1gd], region), best_dice([flair], region))
        assert alone < 0.9
        assert best_dice([t1gd, flair], region) > alone + 0.02


def test_bright_voxels_outside_the_tumor_distract(patients):
    bright = {T1GD: [], FLAIR: []}
    for images, labels, _ in patients:
        tissue = (labels == 0) & (images[T1GD] != 0)
        for channel, label in ((T1GD, ENHANCING), (FLAIR, EDEMA)):
            image = images[channel]
            bright[channel].append((image[tissue] > np.median(image[labels == label])).sum())
    assert np.mean(bright[T1GD]) > 200
    assert np.mean(bright[FLAIR]) > 200


def test_lits_files_cannot_store_two_channels(tmp_path):
    with pytest.raises(
        DataError, match=r"kind 'brain', which have the channels T1gd and FLAIR\. Fix: choose nnunet or dec"
    ):
        write_phantom(tmp_path, 1, seed=0, kind="brain", file_format="lits")
    with pytest.raises(DataError, match=r"file_format 'nnUnet' does not store .* Fix: choose nnunet or decathlon"):
        write_phantom(tmp_path, 1, seed=0, kind="brain", file_format="nnUnet")
    with pytest.raises(ConfigError, match=r"kind = 'brains': it must be one of .*'brain'"):
        write_phantom(tmp_path, 1, seed=0, kind="brains")
    assert files(tmp_path) == []


def test_the_command_writes_other_formats(tmp_path, capsys):
    words = ["phantom", "--num_cases", "1", "--output_dir", str(tmp_path / "cases")]
    assert main([*words, "--kind", "brain", "--format", "lits"]) == 1
    assert "On the command line: --format." in capsys.readouterr().err
    assert main([*words, "--format", "nnunet"]) == 0
    assert files(tmp_path / "cases") == [
        "dataset.json",
        "imagesTr/liver_000_0000.nii.gz",
        "labelsTr/liver_000.nii.gz",
    ]
    assert read_description(tmp_path / "cases") == LITS
    image = nibabel.load(tmp_path / "cases" / "imagesTr" / "liver_000_0000.nii.gz")
    np.testing.assert_array_equal(np.asarray(image.dataobj), np.asarray(make_case(0, 0)[0].dataobj))


def test_liver_phantoms_in_the_decathlons_format_are_3d(tmp_path):
    write_phantom(tmp_path, 1, seed=0, file_format="decathlon")
    assert files(tmp_path) == ["dataset.json", "imagesTr/liver_000.nii.gz", "labelsTr/liver_000.nii.gz"]
    assert json.loads((tmp_path / "dataset.json").read_text())["tensorImageSize"] == "3D"
    assert read_description(tmp_path) == LITS
    assert len(nibabel.load(tmp_path / "imagesTr" / "liver_000.nii.gz").shape) == 3
