"""Probabilities of any labels and of regions become labels: on the grid, in a volume, and in held-out records."""

import json

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import Manifest, Source, record_path, write_manifest
from mtf_imaging.data.sampling import label_region
from mtf_imaging.data.sampling.sampling import Sampling, Span
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.evaluation.cleanup.cleanup import Cleanup
from mtf_imaging.evaluation.volume_scores.case import TOLERANCE_MM
from mtf_imaging.kinds.volumes.held_out import HeldOutRecords
from tests.data.reading import read_volume
from tests.data.resampling import resample_linear, resample_to_labels
from tests.kinds.volumes import evaluate, predict_cases, segment_volume
from tests.records import Record, write_record

ABDOMEN = Description(
    ("CT",),
    {"spleen": 1, "kidney": 2, "vein": 3, "cyst": 4},
    {"spleen": (1,), "kidney": (2,), "vein": (3,), "cyst": (4,)},
    lesions=("cyst",),
)
TUMOR = Description(
    ("CT",),
    {"edema": 1, "necrosis": 2, "enhancing": 3},
    {"whole": (1, 2, 3), "core": (2, 3), "enhancing": (3,)},
    region_order=(1, 2, 3),
    ignore=4,
)
GRID = (12, 10, 8)
HU = np.array([-400, -200, 0, 200, 400], np.int16)  # of labels 0 to 4


def labels_on_grid(description):
    labels = np.zeros(GRID, np.uint8)
    labels[1:8, 1:9, 1:7] = 1
    labels[2:7, 2:8, 2:6] = 2
    labels[3:6, 3:6, 3:5] = 3
    if description is ABDOMEN:
        labels[9:11, 2:5, 2:5] = 4
    return labels


def nearest_label(image):
    """Returns the label of each voxel of an image with the window (-512, 512)."""
    hu = image[..., 0] * 1024 - 512
    return np.abs(hu[..., None] - HU).argmin(-1)


def softmax(image):
    return np.eye(5, dtype=np.float32)[nearest_label(image)]


def sigmoids(image):
    labels = nearest_label(image)
    return np.stack([TUMOR.mask(name, labels) for name in TUMOR.masks], axis=-1).astype(np.float32)


def store(folder, labels):
    folder.mkdir()
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(HU[labels], affine), folder / "volume-1.nii.gz")
    nibabel.save(nibabel.Nifti1Image(labels, affine), folder / "segmentation-1.nii.gz")
    return folder


@pytest.mark.parametrize("description", [ABDOMEN, TUMOR], ids=["softmax", "regions"])
@pytest.mark.parametrize("slab_bytes", [1, 32 << 20])
def test_labels_are_chosen_after_resampling(description, slab_bytes, monkeypatch):
    monkeypatch.setattr(label_region, "_SLAB_BYTES", slab_bytes)
    probabilities = np.random.default_rng(0).random((6, 5, 4, description.num_outputs)).astype(np.float32)
    spans = tuple(Span(0.0, n, 2 * n + 1) for n in (6, 5, 4))
    resampled = resample_linear(probabilities, spans)
    labels = resample_to_labels(probabilities, spans, description)
    expected = np.zeros(labels.shape, np.uint8)
    if description is TUMOR:
        for index, value in enumerate((1, 2, 3)):
            expected[resampled[..., index] > 0.5] = value
    else:
        expected = resampled.argmax(-1)
    assert np.mean(labels == expected) > 0.999  # sums of float32 in another order
    assert len(np.unique(labels)) == (4 if description is TUMOR else 5)


@pytest.mark.parametrize(
    ("description", "network"), [(ABDOMEN, softmax), (TUMOR, sigmoids)], ids=["softmax", "regions"]
)
def test_evaluate_scores_any_labels(tmp_path, description, network):
    labels = labels_on_grid(description)
    cases = store(tmp_path / "cases", labels)
    (score,) = evaluate(cases, tmp_path / "out", Sampling(GRID), network, progress=False, description=description)
    assert {name: counts.dice for name, counts in score.overlaps.items()} == dict.fromkeys(description.masks, 1.0)
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert metrics["surface_tolerance_mm"] == TOLERANCE_MM
    assert metrics["mean"]["dice_per_case"] == 1.0
    assert (tmp_path / "out/pictures/case-1.png").is_file()
    (written,) = predict_cases(
        cases / "volume-1.nii.gz",
        tmp_path / "out.nii",
        Sampling(GRID),
        network,
        progress=False,
        description=description,
    )
    np.testing.assert_array_equal(np.asarray(nibabel.load(written).dataobj), labels)


def test_the_ignore_label_of_the_reference_is_not_scored(tmp_path):
    labels = labels_on_grid(TUMOR)
    network_labels = labels.copy()
    labels[9:] = 4  # not labeled; the network predicts a tumor there
    network_labels[9:11, 2:5, 2:5] = 3
    cases = store(tmp_path / "cases", labels)

    def network(image):
        return np.stack([TUMOR.mask(name, network_labels) for name in TUMOR.masks], axis=-1).astype(np.float32)

    (score,) = evaluate(cases, tmp_path / "out", Sampling(GRID), network, progress=False, description=TUMOR)
    assert score.mean_dice == 1.0


def test_probabilities_of_the_wrong_number_are_refused(tmp_path):
    volume = read_volume(store(tmp_path / "cases", labels_on_grid(TUMOR)) / "volume-1.nii.gz")
    with pytest.raises(ShapeError, match=r"\(12, 10, 8, 4\); .* needs \(12, 10, 8, 3\)\. .* one probability per mask"):
        segment_volume(volume, Sampling(GRID), lambda image: np.zeros((*GRID, 4)), description=TUMOR)
    with pytest.raises(ShapeError, match=r"needs \(12, 10, 8, 5\)\. .* one probability per class"):
        segment_volume(volume, Sampling(GRID), lambda image: np.zeros((*GRID, 4)), description=ABDOMEN)


def test_rules_of_livers_are_refused_for_other_labels(tmp_path):
    cases = store(tmp_path / "cases", labels_on_grid(ABDOMEN))
    message = r"lesions_in_liver = True: .* labels liver, lesion, but the labels are spleen, .*\. Fix: set it to False"
    options = {"progress": False, "cleanup": Cleanup(lesions_in_liver=True), "description": ABDOMEN}
    with pytest.raises(ConfigError, match=message):
        evaluate(cases, tmp_path / "out", Sampling(GRID), softmax, **options)
    with pytest.raises(ConfigError, match=message):
        predict_cases(cases, tmp_path / "p", Sampling(GRID), softmax, **options)


@pytest.mark.parametrize(
    ("description", "network"), [(ABDOMEN, softmax), (TUMOR, sigmoids)], ids=["softmax", "regions"]
)
def test_held_out_records_of_any_labels(tmp_path, description, network):
    labels = labels_on_grid(description)
    facts = ("1", np.eye(4), GRID, (1.0, 1.0, 1.0), None, "RAS", "")
    record = Record(*facts, image=HU[labels], labels=labels)
    write_record(record_path(tmp_path, "1"), record)
    source = Source("", "volume", "labels", GRID, (1.0, 1.0, 1.0), tuple(map(tuple, np.eye(4).tolist())), "RAS")
    write_manifest(tmp_path, Manifest(Sampling(GRID, None), {"1": source}, description))
    held_out = HeldOutRecords(Records((-512.0, 512.0)), progress=False, description=description)
    assert held_out.measures == (*description.masks, "mean")
    scores, pictures = held_out.open(tmp_path, GRID)(network)
    assert scores == dict.fromkeys(held_out.measures, 1.0)
    assert list(pictures) == ["case 1"]
    half = held_out.open(tmp_path, GRID)(lambda image: network(image) * (np.arange(GRID[0]) < 4)[:, None, None, None])
    assert 0 < half[0][held_out.measures[0]] < 1
