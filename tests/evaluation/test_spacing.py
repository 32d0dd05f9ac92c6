"""Prediction on voxels of a fixed size in mm: positions are preserved in any stored orientation."""

import logging

import nibabel
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.evaluation.volume_scores.summary import summarize
from tests.data.oriented import store_nifti
from tests.evaluation.oracle import HU_OF_LABEL, oracle
from tests.kinds.volumes import evaluate, predict_cases
from tests.records import make_record

SPACING = (1.5, 1.5, 2.0)
BOXES = {"padded": (32, 32, 32), "cropped along z": (32, 32, 12), "odd": (31, 27, 17)}
SHAPE, OWN = (41, 38, 13), (0.8, 0.9, 2.5)
# (center, radius) in mm from the center of the first voxel, along the axes of the volume; both off the middle.
LIVER, LESION = ((20.0, 12.0, 16.0), 9.0), ((24.0, 9.0, 18.0), 4.0)


def canonical_labels():
    positions = np.stack(np.meshgrid(*(np.arange(n) * mm for n, mm in zip(SHAPE, OWN, strict=True)), indexing="ij"), -1)
    labels = np.zeros(SHAPE, np.uint8)
    for label, (center, radius) in ((1, LIVER), (2, LESION)):
        labels[np.linalg.norm(positions - center, axis=-1) < radius] = label
    return labels


def affine_of(degrees):
    turn = Rotation.from_euler("xyz", degrees, degrees=True).as_matrix()
    return nibabel.affines.from_matvec(turn @ np.diag(OWN), (-70.0, 33.0, 120.5))


def store(folder, codes="RAS", degrees=(0, 0, 0)):
    """Writes case 1, rotated in space by `degrees` and stored along `codes`."""
    labels = canonical_labels()
    for name, array in (("volume", HU_OF_LABEL[labels]), ("segmentation", labels)):
        store_nifti(folder / f"{name}-1.nii.gz", array, codes, affine_of(degrees))
    return folder


def center_in_mm(path, label):
    """Returns the center of mass of a label in mm and its volume in mm^3, computed from the file with nibabel."""
    image = nibabel.load(path)
    voxels = np.argwhere(np.asarray(image.dataobj) == label)
    voxel_volume = abs(np.linalg.det(image.affine[:3, :3]))
    return nibabel.affines.apply_affine(image.affine, voxels).mean(0), len(voxels) * voxel_volume


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("codes", ["RAS", "LPS", "SAL"])
@pytest.mark.parametrize("degrees", [(0, 0, 0), (12, -17, 25)], ids=["straight", "oblique"])
def test_a_predicted_lesion_has_the_right_position_in_mm(tmp_path, codes, degrees, box):
    folder = store(tmp_path / "cases", codes, degrees)
    sampling = Sampling(box, SPACING)
    (written,) = predict_cases(folder, tmp_path / "out", sampling, oracle, progress=False)
    expected = nibabel.affines.apply_affine(affine_of(degrees), np.divide(LESION[0], OWN))
    for path in (folder / "segmentation-1.nii.gz", written):
        center, volume = center_in_mm(path, 2)
        np.testing.assert_allclose(center, expected, atol=0.5)
        assert volume == pytest.approx(4 / 3 * np.pi * LESION[1] ** 3, rel=0.2)
    reference, prediction = (nibabel.load(p) for p in (folder / "segmentation-1.nii.gz", written))
    np.testing.assert_array_equal(prediction.affine, reference.affine)
    a, b = (np.asarray(image.dataobj) for image in (reference, prediction))
    assert a.shape == b.shape
    assert np.mean(a == b) > 0.98


@pytest.mark.parametrize("codes", ["RAS", "LPS"])
@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_a_lesion_in_a_record_has_the_right_position_in_mm(tmp_path, codes, box):
    """The position of a voxel in the patient follows from the spans and the affine of the record."""
    degrees = (12, -17, 25)
    (case,) = find_cases(store(tmp_path / "cases", codes, degrees))
    record = make_record(case, Sampling(box, SPACING))
    spans = Sampling(box, SPACING).spans(record.shape, record.spacing)
    voxels = np.argwhere(record.labels == 2)
    in_volume = np.stack([s.start + (voxels[:, i] + 0.5) * s.step - 0.5 for i, s in enumerate(spans)], axis=-1)
    center = nibabel.affines.apply_affine(record.affine, in_volume).mean(0)
    expected = nibabel.affines.apply_affine(affine_of(degrees), np.divide(LESION[0], OWN))
    np.testing.assert_allclose(center, expected, atol=0.75)  # labels of slices 2.5 mm apart on voxels of 2 mm
    assert len(voxels) * np.prod(SPACING) == pytest.approx(4 / 3 * np.pi * LESION[1] ** 3, rel=0.2)
    inside = tuple(span.inside(n) for span, n in zip(spans, record.shape, strict=True))
    assert np.all(record.image[inside] >= -400)
    assert np.count_nonzero(record.image == -1024) == record.image.size - record.image[inside].size > 0


def test_cropped_voxels_are_background_with_a_warning(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    folder = store(tmp_path / "cases")
    box = Sampling((12, 32, 32), SPACING)  # 18 of 32.8 mm along x
    (written,) = predict_cases(folder, tmp_path / "out", box, oracle, progress=False)
    (warning,) = caplog.records
    assert warning.getMessage() == (
        f"{folder}/volume-1.nii.gz: the volume is larger than the box x:12,y:32,z:32 of 1.5,1.5,2 mm; the first 7 "
        "and last 7 of 33 mm along x are not segmented and become background. "
        "Fix: increase the resolution, or choose a coarser spacing, in training too."
    )
    assert warning.settings == ("resolution", "spacing")
    found, reference = np.asarray(nibabel.load(written).dataobj), canonical_labels()
    cut = [x for x in range(SHAPE[0]) if not 7.4 <= (x + 0.5) * OWN[0] <= 25.4]
    assert reference[cut].any()
    assert not found[cut[:8] + cut[-8:]].any()
    kept = slice(10, 30)
    assert np.mean(found[kept] == reference[kept]) > 0.98
    caplog.clear()
    scores = evaluate(folder, tmp_path / "scores", box, oracle, num_pictures=0, progress=False)
    assert summarize(scores)["liver"]["dice_per_case"] < 0.97
    assert "segmentation-1.nii.gz: " in caplog.text
    assert "liver voxels" in caplog.text


def test_a_box_larger_than_the_volume_gives_no_warning(tmp_path, caplog):
    folder = store(tmp_path / "cases", "LPS")
    predict_cases(folder, tmp_path / "out", Sampling((32, 32, 32), SPACING), oracle, progress=False)
    scores = evaluate(folder, tmp_path / "scores", Sampling((32, 32, 32), SPACING), oracle, progress=False)
    assert summarize(scores)["lesion"]["dice_per_case"] > 0.8
    assert not caplog.records
