"""The fingerprint of a data set equals what its files contain, and unchanged files are not read again."""

import json
import os
import shutil

import nibabel
import numpy as np
import pytest

from mtf_imaging.data import fingerprint as module
from mtf_imaging.data.cases.cases import find_data_set
from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.fingerprint import (
    FOREGROUND_PERCENTAGES,
    CaseFingerprint,
    Fingerprint,
    Foreground,
    read_fingerprint,
)
from mtf_imaging.data.images import sources
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.errors import DataError

BOX = ((0, 1),) * 3


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fingerprint")
    write_phantom(folder / "brain", 2, seed=1, kind="brain")
    write_phantom(folder / "decathlon", 1, seed=1, kind="brain", file_format="decathlon")
    write_phantom(folder / "ct", 1, seed=1)
    return folder


@pytest.fixture
def reads(monkeypatch):
    """The names of the images that are read."""
    names, read = [], module.open_image_source

    def counting(paths, *args):
        names.append(paths[0].name)
        return read(paths, *args)

    monkeypatch.setattr(module, "open_image_source", counting)
    return names


def array(path):
    return nibabel.as_closest_canonical(nibabel.load(path))


@pytest.mark.slow
def test_a_fingerprint_has_the_numbers_of_the_files(phantoms):
    fingerprint = read_fingerprint(phantoms / "brain", progress=False)
    description, cases, _ = find_data_set(phantoms / "brain")
    assert fingerprint.description == description
    for case, files in zip(fingerprint.cases, cases, strict=True):
        images, mask = [array(path) for path in files.channels], array(files.labels)
        labels = np.asarray(mask.dataobj)
        assert case.key == files.key
        assert case.shape == labels.shape
        assert case.spacing == pytest.approx(mask.header.get_zooms(), rel=1e-4)
        assert case.voxels == {int(value): int((labels == value).sum()) for value in np.unique(labels)}
        for channel, foreground, image in zip(case.channels, case.foreground, images, strict=True):
            values = image.get_fdata()
            assert channel.mean == pytest.approx(values.mean())
            assert channel.nonzero_sd == pytest.approx(values[values != 0].std(), rel=1e-4)
            assert foreground.mean == pytest.approx(values[labels > 0].mean())
            expected = np.percentile(values[labels > 0], FOREGROUND_PERCENTAGES)
            assert foreground.percentiles == pytest.approx(expected.tolist())
            assert foreground.sd == pytest.approx(values[labels > 0].std())
        for axis, wide in enumerate(case.labeled_mm):
            used = np.flatnonzero(labels.any(axis=tuple({0, 1, 2} - {axis})))
            margin = min(used[0], labels.shape[axis] - 1 - used[-1])
            assert wide == pytest.approx((labels.shape[axis] - 2 * margin) * case.spacing[axis])
            is_nonzero = np.any([np.asarray(image.dataobj) != 0 for image in images], axis=0)
            (planes,) = is_nonzero.any(axis=tuple({0, 1, 2} - {axis})).nonzero()
            assert case.nonzero[axis] == (planes[0], planes[-1] + 1)
    total = sum(np.prod(case.shape) for case in fingerprint.cases)
    assert fingerprint.frequency(3) == pytest.approx(sum(case.voxels[3] for case in fingerprint.cases) / total)
    assert fingerprint.prevalence(3) == 1
    assert fingerprint.prevalence(9) == fingerprint.frequency(9) == 0


def test_thin_slabs_have_the_numbers_of_the_whole(phantoms, monkeypatch):
    whole = [read_fingerprint(phantoms / name, progress=False) for name in ("brain", "ct")]
    for each in (sources, module):
        monkeypatch.setattr(each, "_SLAB_VOXELS", 3000)
    assert [read_fingerprint(phantoms / name, progress=False) for name in ("brain", "ct")] == whole


def _case(values):
    foreground = Foreground(0.0, 1.0, tuple(np.percentile(values, FOREGROUND_PERCENTAGES)))
    return CaseFingerprint("case", (8, 8, 8), (1.0, 1.0, 1.0), "RAS", {1: 1}, {}, BOX, BOX, (), (foreground,), {})


def test_percentiles_of_all_cases_count_each_case_the_same():
    rng = np.random.default_rng(0)
    samples = [rng.normal(mean, sd, 20_000) for mean, sd in ((40, 10), (60, 20), (150, 40), (55, 5))]
    fingerprint = Fingerprint(LITS, tuple(map(_case, samples)))
    low, high = fingerprint.foreground_percentiles(0)
    expected = np.percentile(np.concatenate(samples), (0.5, 99.5))
    assert (low, high) == pytest.approx(expected.tolist(), abs=2)
    # A case with more voxels has the same weight.
    repeated = Fingerprint(LITS, tuple(_case(np.repeat(values, 1 + index)) for index, values in enumerate(samples)))
    assert repeated.foreground_percentiles(0) == pytest.approx((low, high), abs=1e-2)
    assert Fingerprint(LITS, (_case(samples[0]),)).foreground_percentiles(0) == pytest.approx(
        np.percentile(samples[0], (0.5, 99.5)).tolist(), rel=1e-9
    )


def test_both_layouts_of_files_have_the_same_fingerprint(phantoms):
    one, *_ = read_fingerprint(phantoms / "brain", progress=False).cases
    (other,) = read_fingerprint(phantoms / "decathlon", progress=False).cases
    assert (one.shape, one.voxels, one.channels) == (other.shape, other.voxels, other.channels)


def test_lits_needs_no_description(phantoms):
    fingerprint = read_fingerprint(phantoms / "ct", progress=False)
    assert fingerprint.description.rules == "lits"
    assert 0 < fingerprint.frequency(2) < fingerprint.frequency(1) < 0.2
    assert fingerprint.cases[0].channels[0].minimum == -1024


def test_unchanged_cases_are_not_read_again(phantoms, tmp_path, reads):
    folder, file = tmp_path / "raw", tmp_path / "fingerprint.json"
    shutil.copytree(phantoms / "brain", folder)
    first = read_fingerprint(folder, file, progress=False)
    assert len(reads) == 2
    assert read_fingerprint(folder, file, progress=False) == first
    assert len(reads) == 2
    changed = folder / "labelsTr/brain_001.nii.gz"
    os.utime(changed, ns=(1, 1))
    read_fingerprint(folder, file, progress=False)
    assert reads[2:] == ["brain_001_0000.nii.gz"]
    before = file.read_bytes()
    for path in [changed, *(folder / "imagesTr").glob("brain_001*")]:
        path.unlink()
    fields = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps(fields | {"numTraining": 1}))
    assert [case.key for case in read_fingerprint(folder, file, progress=False).cases] == ["brain_000"]
    assert len(reads) == 3
    assert file.read_bytes() != before


def test_another_description_reads_everything_again(phantoms, tmp_path, reads):
    folder, file = tmp_path / "raw", tmp_path / "fingerprint.json"
    shutil.copytree(phantoms / "brain", folder)
    read_fingerprint(folder, file, progress=False)
    fields = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps(fields | {"intensities": ["z-score", "z-score"]}))
    read_fingerprint(folder, file, progress=False)
    assert len(reads) == 4


@pytest.mark.slow
def test_workers_have_the_same_result(phantoms):
    assert read_fingerprint(phantoms / "brain", workers=2, progress=False) == read_fingerprint(
        phantoms / "brain", progress=False
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 4}', '{"format": 4, "spacing_table": {}, "description": {}}'])
def test_another_file_is_not_overwritten(phantoms, tmp_path, text):
    file = tmp_path / "fingerprint.json"
    file.write_text(text)
    with pytest.raises(DataError, match=r"fingerprint\.json: .*Fix: "):
        read_fingerprint(phantoms / "ct", file, progress=False)
    assert file.read_text() == text


def test_all_unusable_cases_are_reported_and_nothing_is_kept(phantoms, tmp_path):
    folder, file = tmp_path / "raw", tmp_path / "fingerprint.json"
    shutil.copytree(phantoms / "brain", folder)
    for path in (folder / "labelsTr").iterdir():
        labels = nibabel.load(path)
        nibabel.save(nibabel.Nifti1Image(np.full(labels.shape, 7, np.uint8), labels.affine), path)
    with pytest.raises(DataError, match=r"(?s)2 of 2 cases cannot be used:.*brain_000.*brain_001"):
        read_fingerprint(folder, file, progress=False)
    assert not file.exists()


def test_a_data_set_without_labeled_voxels_is_refused(phantoms, tmp_path):
    folder = tmp_path / "raw"
    shutil.copytree(phantoms / "decathlon", folder)
    for path in (folder / "labelsTr").iterdir():
        labels = nibabel.load(path)
        nibabel.save(nibabel.Nifti1Image(np.zeros(labels.shape, np.uint8), labels.affine), path)
    with pytest.raises(DataError, match=r"none of the 1 cases has a labeled voxel\. Fix: .*1 edema"):
        read_fingerprint(folder, progress=False)
