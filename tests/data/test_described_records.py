"""Tests records of data sets that a dataset.json describes, and training on them."""

import dataclasses
import json
import shutil

import nibabel
import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.description.dataset_json import write_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.intensities.schemes import Intensity
from mtf_imaging.data.intensities.statistics import channel_statistics
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.intensities import resolve_intensities
from mtf_imaging.data.records.manifest import open_records, read_manifest, record_path
from mtf_imaging.data.sampling.sampling import whole_field
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.partial import remove
from tests.data.conftest import _store
from tests.data.reading import read_volume
from tests.data.resampling import resample_linear, resample_nearest
from tests.data.test_pipeline import assert_same, take
from tests.records import contents, read_record

SHAPE, NNUNET = (8, 6, 5), "Dataset001_Brain"
GRID = "x:4,y:6,z:5"
BRAIN = Description(
    channels=("CT", "FLAIR", "T1w"),
    labels={"edema": 1, "core": 2, "enhancing": 3},
    masks={"whole": (1, 2, 3), "core": (2, 3), "enhancing": (3,)},
    region_order=(1, 2, 3),
    ignore=4,
    lesions=("whole",),
    intensities=(Intensity("window", (-100, 300)), Intensity("z-score of nonzero voxels"), Intensity("z-score")),
)
PANCREAS = Description(channels=("CT",), labels={"pancreas": 1}, masks={"pancreas": (1,)})


def brain(number):
    """Returns the channels and the labels of a case; FLAIR is masked, as after skull stripping."""
    rng = np.random.default_rng(number)
    flair = rng.gamma(2, 100, SHAPE).astype(np.float32)
    flair[:4] = 0
    hu = rng.integers(-1000, 1000, SHAPE, np.int16)
    return [hu, flair, rng.normal(500, 80, SHAPE).astype(np.float32)], rng.integers(0, 5, SHAPE).astype(np.uint8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set of three cases with three channels, in the layout of nnU-Net, and its records."""
    folder = tmp_path_factory.mktemp("made")
    for number, codes in enumerate(("RAS", "LPS", "SAL")):
        channels, labels = brain(number)
        for channel, values in enumerate(channels):
            _store(folder / f"{NNUNET}/imagesTr/b_{number}_{channel:04}.nii.gz", values, codes)
        _store(folder / f"{NNUNET}/labelsTr/b_{number}.nii.gz", labels, codes)
    write_description(folder / NNUNET, BRAIN, 3)
    convert(folder / NNUNET, folder / "records", GRID, progress=False)
    return folder


@pytest.fixture
def nnunet(made, tmp_path):
    return shutil.copytree(made / NNUNET, tmp_path / NNUNET)


@pytest.fixture
def records(made, tmp_path):
    return shutil.copytree(made / "records", tmp_path / "records")


def expected_values(number, channel):
    return resample_linear(brain(number)[0][channel], whole_field(SHAPE, (4, 6, 5)))


def test_a_record_has_resampled_values_and_the_statistics_of_the_whole_case(records):
    manifest = open_records(records, (4, 6, 5))
    assert manifest.description == BRAIN
    assert manifest.intensities == BRAIN.intensities
    for number, key in enumerate(manifest.cases):
        record = read_record(record_path(records, key), manifest.sampling)
        channels, labels = brain(number)
        assert (record.image.dtype, record.image.shape) == (np.float32, (4, 6, 5, 3))
        np.testing.assert_array_equal(record.image[..., 0], expected_values(number, 0).round())
        for channel in (1, 2):
            np.testing.assert_array_equal(record.image[..., channel], expected_values(number, channel))
        np.testing.assert_array_equal(record.labels, resample_nearest(labels, whole_field(SHAPE, (4, 6, 5))))
        assert record.labels.max() == BRAIN.ignore
        assert record.statistics == tuple(map(channel_statistics, channels))
        source = manifest.sources[key]
        assert source.statistics == record.statistics
        assert source.channels == tuple(f"imagesTr/b_{number}_000{n}.nii.gz" for n in range(3))
    fields = json.loads((records / "dataset.json").read_text())
    assert (fields["format"], fields["regions_class_order"]) == (5, [1, 2, 3])
    assert fields["channel_names"] == {"0": "CT", "1": "FLAIR", "2": "T1w"}


def test_the_box_is_padded_with_air_in_ct_and_with_zeros_in_other_channels(nnunet, tmp_path):
    convert(nnunet, tmp_path / "out", 16, "1.5,2,3", progress=False)
    record = read_record(record_path(tmp_path / "out", "b_0"))
    assert record.image[0, 0, 0].tolist() == [-1024, 0, 0]
    assert record.labels[0, 0, 0] == 0
    inside = np.s_[4:12, 5:11, 5:10]
    for channel, values in enumerate(brain(0)[0]):
        np.testing.assert_array_equal(record.image[(*inside, channel)], values)


def test_a_decathlon_file_with_four_axes_gives_the_same_records(nnunet, records, tmp_path):
    folder = tmp_path / "Task01_Brain"
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True)
    for path in (nnunet / "labelsTr").iterdir():
        (folder / "labelsTr" / path.name).write_bytes(path.read_bytes())
        parts = [nibabel.load(nnunet / "imagesTr" / path.name.replace(".nii", f"_000{n}.nii")) for n in range(3)]
        stack = np.stack([part.get_fdata(dtype=np.float32) for part in parts], 3)
        nibabel.save(nibabel.Nifti1Image(stack, parts[0].affine), folder / "imagesTr" / path.name)
    write_description(folder, BRAIN, 3)
    convert(folder, tmp_path / "out", GRID, progress=False)
    for key in open_records(records).cases:
        one, other = (read_record(record_path(where, key)) for where in (records, tmp_path / "out"))
        np.testing.assert_array_equal(one.image, other.image)
        np.testing.assert_array_equal(one.labels, other.labels)
        assert one.statistics == other.statistics
    assert read_manifest(tmp_path / "out").sources["b_0"].channels == ()


def test_convert_prints_the_description(nnunet, tmp_path, capsys):
    convert(nnunet, tmp_path / "out", 4)
    out = capsys.readouterr().out
    assert "channels  CT (window -100 300), FLAIR (z-score of nonzero voxels), T1w (z-score)\n" in out
    assert "labels    edema = 1, core = 2, enhancing = 3, ignore = 4\n" in out
    assert "regions   whole = 1+2+3, core = 2+3, enhancing = 3\n" in out


def test_an_interrupted_conversion_is_resumed_and_another_description_is_refused(nnunet, records, capsys):
    before = contents(records)
    remove(record_path(records, "b_1"))
    convert(nnunet, records, GRID)
    assert "(2 already converted)" in capsys.readouterr().out
    assert contents(records) == before
    write_description(nnunet, dataclasses.replace(BRAIN, ignore=None, labels=dict(BRAIN.labels)), 3)
    with pytest.raises(DataError, match=r"with the labels edema = 1, .* ignore = 4, but .* has the labels edema = 1"):
        convert(nnunet, records, GRID, progress=False)
    others = dataclasses.replace(BRAIN, channels=("CT", "FLAIR", "T2w"))
    write_description(nnunet, others, 3)
    with pytest.raises(DataError, match=r"with the channels CT, FLAIR, T1w, but .* has the channels CT, FLAIR, T2w"):
        convert(nnunet, records, GRID, progress=False)
    write_description(nnunet, dataclasses.replace(BRAIN, intensities=(*BRAIN.intensities[:2], Intensity("none"))), 3)
    convert(nnunet, records, GRID, progress=False)
    assert {name for name, data in contents(records).items() if data != before[name]} == {"dataset.json"}
    assert read_manifest(records).intensities[2].kind == "none"


def test_a_changed_channel_is_reported(nnunet, records, store):
    store(nnunet / "imagesTr/b_1_0002.nii.gz", brain(7)[0][2], "LPS")
    with pytest.raises(DataError, match=r"case-b_1\.ome\.zarr: this record was not made from the present"):
        convert(nnunet, records, GRID, progress=False)


def test_cropped_voxels_of_each_mask_are_reported(nnunet, tmp_path, caplog):
    convert(nnunet, tmp_path / "out", 4, "1.5,2,3", progress=False)
    labels = brain(0)[1]
    kept = labels[2:6, 1:5, 1:5]
    counts = [
        (np.isin(labels, values).sum() - np.isin(kept, values).sum(), np.isin(labels, values).sum())
        for values in BRAIN.masks.values()
    ]
    texts = [f"{lost} of {total} {name} voxels" for name, (lost, total) in zip(BRAIN.masks, counts, strict=True)]
    assert f"b_0.nii.gz: {texts[0]}, {texts[1]} and {texts[2]} lie outside the box" in caplog.text


def test_masks_without_labels_name_the_labels(nnunet, tmp_path, store, caplog):
    for number in range(3):
        store(nnunet / f"labelsTr/b_{number}.nii.gz", np.full(SHAPE, 4, np.uint8), ("RAS", "LPS", "SAL")[number])
    with pytest.raises(
        DataError,
        match=r"none of the 3 cases has a voxel of edema, core or enhancing at x:4,y:6,z:5\. Fix: give masks that "
        r"label the structures as in dataset.json \(edema = 1, core = 2, enhancing = 3, ignore = 4\)",
    ):
        convert(nnunet, tmp_path / "out", GRID, progress=False)
    assert "this mask has no voxel of edema, core or enhancing; it is used anyway." in caplog.text


def test_batches_are_the_network_input_of_the_records(records):
    (batch,) = take(Records().training_batches(records, 3, seed=0), 1)
    assert (batch["image"].shape, batch["image"].dtype) == ((3, 4, 6, 5, 3), np.float32)
    for index, key in enumerate(batch["cases"]):
        record = read_record(record_path(records, key))
        image = np.asarray(batch["image"][index])
        np.testing.assert_array_equal(image, record.network_input(BRAIN.intensities))
        ct, flair, t1 = np.moveaxis(image, 3, 0)
        channels = brain(int(key.removeprefix("b_")))[0]
        np.testing.assert_allclose(ct, np.clip((record.image[..., 0] + 100) / 400, 0, 1), atol=1e-6)
        inside = channels[1][channels[1] != 0]
        np.testing.assert_allclose(flair[1:], (record.image[1:, ..., 1] - inside.mean()) / inside.std(), atol=1e-4)
        assert not flair[0].any()
        np.testing.assert_allclose(t1, (record.image[..., 2] - channels[2].mean()) / channels[2].std(), atol=1e-4)
        np.testing.assert_array_equal(batch["labels"][index], record.labels)


def test_intensities_and_the_window_can_be_changed(records):
    manifest = open_records(records)
    kinds = resolve_intensities(manifest, (-50, 50), {"T1w": "percentiles"})
    assert list(map(str, kinds)) == ["window -50 50", "z-score of nonzero voxels", "percentiles"]
    assert str(resolve_intensities(manifest)[0]) == "window -100 300"
    (batch,) = take(
        Records((-50, 50), intensities={"T1w": "percentiles"}).batches(
            records, batch_size=1, sizes=(4, 6, 5), seed=0, start_step=0
        ),
        1,
    )
    record = read_record(record_path(records, batch["cases"][0]))
    np.testing.assert_array_equal(batch["image"][0], record.network_input(kinds))
    with pytest.raises(ConfigError, match=r"no channel 'FLAIRE'\. Did you mean 'FLAIR'\? Fix: use .*: CT, FLAIR, T1w"):
        resolve_intensities(manifest, overrides={"FLAIRE": "z-score"})
    with pytest.raises(DataError, match=r"intensities: channel 'T1w': intensity 'zscor' is unknown"):
        resolve_intensities(manifest, overrides={"T1w": "zscor"})


MOVE = Augmentation(flips=("x", "y"), rotation=10, zoom=0.1, elastic=0.02)
EVERY = dataclasses.replace(
    MOVE, brightness=0.2, contrast=0.3, noise=0.1, gamma=0.3, multiscale_noise=0.1, half_turn=0.5
)


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", [None, MOVE, EVERY])
def test_batches_from_step_k_equal_those_of_an_uninterrupted_run(records, augmentation):
    uninterrupted = take(Records(augmentation=augmentation).training_batches(records, 2, seed=3), 5)
    resumed = Records(augmentation=augmentation).training_batches(records, 2, seed=3, start_step=3)
    assert_same(take(resumed, 2), uninterrupted[3:])
    for batch in uninterrupted:
        image = np.asarray(batch["image"])
        assert np.isfinite(image).all()
        assert 0 <= image[..., 0].min() <= image[..., 0].max() <= 1
        assert image[..., 2].min() < -0.5  # a z-score is not clipped


def test_channels_move_alike_and_change_independently(records):
    copies = {"FLAIR": "window 0 1000", "T1w": "window 0 1000"}
    flips = Records(augmentation=Augmentation(flips=("x", "z")), intensities=copies).training_batches(records, 1, 0)
    plain = {b["cases"][0]: b for b in take(Records(intensities=copies).training_batches(records, 1, seed=0), 3)}
    for batch in take(flips, 6):
        source = plain[batch["cases"][0]]
        same = [
            axes
            for axes in ((), (1,), (3,), (1, 3))
            if np.array_equal(np.flip(source["image"], axes), batch["image"])
            and np.array_equal(np.flip(source["labels"], axes), batch["labels"])
        ]
        assert same
    for option in ({"brightness": 0.3}, {"contrast": 0.3}, {"noise": 0.1}, {"multiscale_noise": 0.1}, {"gamma": 0.5}):
        image = np.full((4, 4, 4, 2), 0.3, np.float32)
        labels = tf.zeros((4, 4, 4), tf.uint8)
        one, other = np.moveaxis(
            Augmentation(**option)(tf.constant(image), labels, 3, tf.constant(5, tf.int64))[0], 3, 0
        )
        assert not np.allclose(one, other, atol=1e-3)


def test_voxels_outside_a_masked_channel_stay_zero(records):
    loud = Augmentation(brightness=0.5, contrast=0.5, noise=0.5, gamma=0.3)
    for batch in take(Records(augmentation=loud).training_batches(records, 3, seed=0), 2):
        flair = np.asarray(batch["image"][..., 1])
        assert not flair[:, 0].any()
        assert flair[:, 1:].all()


def test_voxels_from_beyond_the_image_get_the_value_of_air(records):
    shifted = Augmentation(translation=1.0)
    seen = 0
    for batch in take(Records(augmentation=shifted).training_batches(records, 1, seed=0), 6):
        case = brain(int(batch["cases"][0].removeprefix("b_")))[0]
        beyond = [0.0, 0.0, -case[2].mean(dtype=np.float64) / case[2].std(dtype=np.float64)]
        image = np.asarray(batch["image"][0])
        empty = np.isclose(image, np.float32(beyond), rtol=1e-4, atol=1e-4).all(-1)
        assert not np.asarray(batch["labels"][0])[empty].any()
        seen += empty.sum()
    assert seen > 100


def test_noise_has_the_unit_of_a_channel_that_is_not_clipped(records):
    none = {"T1w": "none"}
    noisy = Records(augmentation=Augmentation(noise=0.1), intensities=none)
    plain = {b["cases"][0]: b["image"] for b in take(Records().training_batches(records, 1, seed=0), 3)}
    raw = {b["cases"][0]: b["image"] for b in take(Records(intensities=none).training_batches(records, 1, 0), 3)}
    for batch in take(noisy.training_batches(records, 1, seed=0), 3):
        key = batch["cases"][0]
        sd = brain(int(key.removeprefix("b_")))[0][2].std()
        assert np.std(batch["image"][..., 2] - raw[key][..., 2]) == pytest.approx(0.1 * sd, rel=0.25)
        assert not np.array_equal(batch["image"], plain[key])


@pytest.mark.parametrize("option", ["lesions", "class_shift", "class_shift_sd", "corruption", "corruption_sd"])
def test_options_of_lits_are_refused_for_other_labels(records, option):
    with pytest.raises(
        ConfigError,
        match=rf"Augmentation\.{option} 0\.5: .* but the labels of the data set are edema, core, enhancing\. "
        rf"Fix: set Augmentation\.{option} to 0\.",
    ):
        Records(augmentation=Augmentation(**{option: 0.5})).training_batches(records, 1, seed=0)


def test_custom_augmentations_get_four_arguments(records):
    seen = []

    def augmentation(image, labels, seed, sample):
        seen.append(image.shape)
        return -image, labels

    plain, negative = (
        next(Records(augmentation=each).training_batches(records, 1, 0))["image"] for each in (None, augmentation)
    )
    np.testing.assert_array_equal(plain, -negative)
    assert seen[0] == (4, 6, 5, 3)


@pytest.fixture
def pancreas(tmp_path, store, arrays):
    folder = tmp_path / "Dataset002_Pancreas"
    for number in range(2):
        hu, labels = arrays(number)
        store(folder / f"imagesTr/p_{number}_0000.nii.gz", hu)
        store(folder / f"labelsTr/p_{number}.nii.gz", labels // 2)
    write_description(folder, PANCREAS, 2)
    return folder


def test_a_single_ct_is_stored_as_hu(pancreas, tmp_path):
    out = tmp_path / "out"
    convert(pancreas, out, 4, progress=False)
    manifest = open_records(out)
    assert manifest.description == PANCREAS
    record = read_record(record_path(out, "p_0"))
    volume = read_volume(pancreas / "imagesTr/p_0_0000.nii.gz")
    assert (record.image.dtype, record.image.ndim) == (np.int16, 3)
    np.testing.assert_array_equal(
        record.image, resample_linear(volume.hu, whole_field(volume.hu.shape, (4, 4, 4))).round()
    )
    assert record.statistics == (channel_statistics(volume.hu),)
    for schemes in (None, {"CT": "z-score"}, {"CT": "percentiles"}):
        (batch,) = take(Records(intensities=schemes).training_batches(out, 1, seed=0), 1)
        record = read_record(record_path(out, batch["cases"][0]))
        expected = record.network_input(resolve_intensities(manifest, overrides=schemes))
        np.testing.assert_array_equal(batch["image"][0], expected)


def test_lits_has_no_description_and_no_statistics(lits_dir, tmp_path):
    convert(lits_dir, tmp_path / "out", 4, progress=False)
    fields = json.loads((tmp_path / "out/dataset.json").read_text())
    assert fields.keys() == {"format", "resolution", "spacing", "cases"}
    assert fields["cases"][0].keys() == {
        *("case", "digest", "volume", "labels", "shape", "spacing", "affine", "axis_codes")
    }
    manifest = open_records(tmp_path / "out")
    assert manifest.description == LITS
    record = read_record(record_path(tmp_path / "out", "2"))
    assert (record.image.ndim, record.statistics) == (3, ())
    window = Intensity("window", (-512, 512))
    (batch,) = take(Records().training_batches(tmp_path / "out", 1, seed=0, shuffle=False), 1)
    np.testing.assert_array_equal(batch["image"][0], record.network_input([window]))
    with pytest.raises(
        DataError, match=r"channel 'CT' has the scheme 'z-score', which needs statistics, but these rec"
    ):
        Records(intensities={"CT": "z-score"}).training_batches(tmp_path / "out", 1, seed=0)


def test_lits_with_another_scheme_has_statistics_and_keeps_its_rules(lits_dir, tmp_path):
    write_description(lits_dir, dataclasses.replace(LITS, intensities=(Intensity("z-score"),), file_ending=".nii"), 3)
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    manifest = open_records(out)
    assert (manifest.description.rules, manifest.intensities) == ("lits", (Intensity("z-score"),))
    (batch,) = take(Records().training_batches(out, 1, seed=0), 1)
    record = read_record(record_path(out, batch["cases"][0]))
    np.testing.assert_array_equal(batch["image"][0], record.network_input(manifest.intensities))
    with pytest.raises(
        ConfigError, match=r"Augmentation\.lesions 0\.5: .* but the intensity scheme is 'z-score'\. Fix"
    ):
        Records(augmentation=Augmentation(lesions=0.5)).training_batches(out, 1, seed=0)


def test_records_of_another_form_are_not_mixed(lits_dir, tmp_path):
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    (out / "dataset.json").unlink()
    write_description(lits_dir, dataclasses.replace(LITS, intensities=(Intensity("z-score"),)), 3)
    with pytest.raises(DataError, match=r"3 of 3 cases .*\n.*this record has no statistics of its channels, which"):
        convert(lits_dir, out, 4, progress=False)
    write_description(lits_dir, dataclasses.replace(LITS, channels=("T1w",), rules="any", intensities=()), 3)
    with pytest.raises(DataError, match=r"this record has HU of one CT, but dataset\.json names the channel\(s\) T1w"):
        convert(lits_dir, out, 4, progress=False)
