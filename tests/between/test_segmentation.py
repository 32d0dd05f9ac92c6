"""Cases that are segmented and scored by slices: the same files and scores as those of one process."""

import json

import numpy as np
import pytest

from mtf_imaging.data.records.convert import convert
from tests.between import segmentation
from tests.between.segmentation import Setup
from tests.evaluation.test_evaluate import store

# The cases have 24 x 20 x 16 voxels of 2 x 2 x 3 mm, and one of them 30 x 20 x 16 voxels.
SETUPS = {
    "grid": (Setup("x:16,y:12,z:8", cleanup=True), "rows:2,cols:2", "x:rows,y:cols"),
    "along z": (Setup("x:12,y:12,z:20", flips=("z",)), "rows:4", "z:rows"),
    "uneven slices, one of them empty": (
        Setup("x:9,y:12,z:8", flips=("x", "y"), networks=2),
        "rows:4,cols:2",
        "x:rows,y:cols",
    ),
    "a box that crops x and pads y": (Setup("x:12,y:20,z:8", "3,3,4", flips=("x",)), "rows:4", "x:rows"),
    "slices beyond the volume": (Setup("x:48,y:8,z:8", "2,4,4"), "rows:4", "x:rows"),
    "several grids": (Setup("x:24,y:20,z:16|x:32,y:20,z:16", "2,2,3", networks=2), "rows:2,cols:2", "x:rows,z:cols"),
    "two processes with one slice": (Setup("x:16,y:12,z:8", flips=("y",)), "rows:2", "x:rows"),
    "a batch that is not split": (Setup("x:16,y:12,z:8"), "rows:2,cores:2", "y:rows,batch:cores"),
}
FAST = ("grid", "a box that crops x and pads y")
setups = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in SETUPS]
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Three cases in several orientations, stored along different axes."""
    folder = tmp_path_factory.mktemp("cases")
    for number, codes, shape in ((3, "RAS", (24, 20, 16)), (4, "SAL", (30, 20, 16)), (12, "LPI", (24, 20, 16))):
        store(folder, number, codes, shape)
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@setups
def test_the_segmentations_are_the_same_files(groups, cases, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    groups.get(4).run(segmentation.segmented, setup, cases, tmp_path / "four", mesh, layout)
    segmentation.segmented(setup, cases, tmp_path / "one")
    files = content(tmp_path / "four")
    assert files == content(tmp_path / "one")
    assert sorted(files) == [f"segmentation-{number}.nii.gz" for number in (12, 3, 4)]
    if not setup.cleanup:
        assert any(labels_of(tmp_path / "four" / file) > 1 for file in files), "the network predicts one class only"


def labels_of(path):
    import nibabel

    return len(np.unique(np.asarray(nibabel.load(path).dataobj)))


@setups
def test_the_scores_are_the_same(groups, cases, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    groups.get(4).run(segmentation.evaluated, setup, cases, tmp_path / "four", mesh, layout)
    segmentation.evaluated(setup, cases, tmp_path / "one")
    files, expected = content(tmp_path / "four"), content(tmp_path / "one")
    assert files == expected
    assert {"metrics.json", "report.html", "pictures/case-3.png"} <= files.keys()
    assert 0 < json.loads(files["metrics.json"])["liver"]["dice_per_case"] < 1


@setups
def test_held_out_scores_are_the_same(groups, cases, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    convert(cases, tmp_path / "records", setup.resolution, spacing=setup.spacing, workers=1, progress=False)
    results = groups.get(4).run(segmentation.held_out, setup, tmp_path / "records", mesh, layout)
    scores, pictures = segmentation.held_out(setup, tmp_path / "records")
    assert [each for each, _ in results] == [scores] * 4
    assert 0 < scores["liver"] < 1
    assert pictures.keys() == results[0][1].keys() == {"case 3"}
    np.testing.assert_array_equal(results[0][1]["case 3"], pictures["case 3"])
    assert not any(drawn for _, drawn in results[1:]), "only process 0 draws"
