"""Cases that are segmented and scored by slices: the same files and scores as those of one process."""

import json

import numpy as np
import pytest

from mtf_imaging.data.records.convert import convert
from mtf_imaging.evaluation.cleanup.thresholds import read_open_voxels
from mtf_imaging.kinds.volumes.segment.maps import MapChoice
from tests.between import segmentation
from tests.between.segmentation import Setup
from tests.data.oriented import store_nifti
from tests.evaluation.oracle import AFFINE, case, store
from tests.records import contents

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
    "channels that are split": (Setup("x:16,y:12,z:8", data="mr"), "rows:2,cores:2", "z:rows,channels:cores"),
    "an image that is not split": (Setup("x:16,y:12,z:8", flips=("x",)), "rows:4", ""),
    "many slabs": (Setup("x:24,y:20,z:20", data="mr", flips=("x",), small=True), "rows:2,cols:2", "x:rows,y:cols"),
    "windows in slices": (Setup("x:16,y:12,z:12", flips=("x",), window=(8, 8, 8)), "rows:2,cols:2", "x:rows,y:cols"),
    "windows on processes": (Setup("x:15,y:12,z:8", data="mr", window=(8, 8, 8)), "cores:4", "batch:cores"),
    "slices of windows on processes": (
        Setup("x:24,y:20,z:16|x:32,y:20,z:16", "2,2,3", networks=2, small=True, window=(16, 12, 8)),
        "rows:2,cores:2",
        "x:rows,batch:cores",
    ),
}
FAST = ("grid", "a box that crops x and pads y", "many slabs", "windows on processes")
setups = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in SETUPS]
)


CASES = ((3, "RAS", (24, 20, 16)), (4, "SAL", (30, 20, 16)), (12, "LPI", (24, 20, 16)))
FIRST, LARGEST = {"ct": "3", "mr": "case_003"}, {"ct": "liver", "mr": "whole"}  # the first case, the largest mask
MR = {
    "channel_names": {"0": "FLAIR", "1": "T1w"},
    "labels": {"background": 0, "whole": [1, 2], "core": 2},
    "regions_class_order": [1, 2],
    "file_ending": ".nii.gz",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Three CTs in several orientations, stored along different axes; and two MR images with z-scores and regions."""
    folders = {data: tmp_path_factory.mktemp(data) for data in ("ct", "mr")}
    for number, codes, shape in CASES:
        store(folders["ct"], number, codes, shape)
    for number, codes, shape in CASES[:2]:
        for channel, stored in enumerate((codes, "RAS")):  # the channels of a case are stored along different axes
            name = f"imagesTr/case_{number:03}_{channel:04}.nii.gz"
            store_nifti(folders["mr"] / name, case(number + channel, shape)[0], stored, AFFINE)
        store_nifti(folders["mr"] / f"labelsTr/case_{number:03}.nii.gz", case(number, shape)[1], codes, AFFINE)
    (folders["mr"] / "dataset.json").write_text(json.dumps({**MR, "numTraining": 2}))
    return folders


@pytest.mark.slow
@setups
def test_the_segmentations_are_the_same_files(groups, folders, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    cases = folders[setup.data]
    groups.get(4).run(segmentation.segmented, setup, cases, tmp_path / "four", mesh, layout)
    segmentation.segmented(setup, cases, tmp_path / "one")
    files = contents(tmp_path / "four")
    assert files == contents(tmp_path / "one")
    names = {"ct": ["segmentation-12", "segmentation-3", "segmentation-4"], "mr": ["case_003", "case_004"]}
    assert sorted(files) == [f"{name}.nii.gz" for name in names[setup.data]]
    if not setup.cleanup:
        assert any(labels_of(tmp_path / "four" / file) > 1 for file in files), "the network predicts one class only"


MAPPED = ("a box that crops x and pads y", "uneven slices, one of them empty", "channels that are split", "many slabs")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == MAPPED[0] else [pytest.mark.slow]) for name in MAPPED]
)
def test_the_maps_are_the_same_files(groups, folders, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    cases, choice = folders[setup.data], MapChoice(True, True, several=bool(setup.flips))
    groups.get(4).run(segmentation.segmented, setup, cases, tmp_path / "four", mesh, layout, choice)
    segmentation.segmented(setup, cases, tmp_path / "one", choice=choice)
    files = contents(tmp_path / "four")
    assert {file.partition("/")[0] for file in files if "/" in file} == {*choice.names}
    assert files == contents(tmp_path / "one")


def labels_of(path):
    import nibabel

    return len(np.unique(np.asarray(nibabel.load(path).dataobj)))


@pytest.mark.slow
@setups
def test_the_scores_are_the_same(groups, folders, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    cases = folders[setup.data]
    groups.get(4).run(segmentation.evaluated, setup, cases, tmp_path / "four", mesh, layout)
    segmentation.evaluated(setup, cases, tmp_path / "one")
    files, expected = (contents(folder) | open_voxels(folder) for folder in (tmp_path / "four", tmp_path / "one"))
    assert files == expected
    assert {"metrics.json", "report.html", f"pictures/case-{FIRST[setup.data]}.png"} <= files.keys()
    assert 0 < json.loads(files["metrics.json"])[LARGEST[setup.data]]["dice_per_case"] < 1


@pytest.mark.mostly_slow(fast=0.3)
@setups
def test_held_out_scores_are_the_same(groups, folders, tmp_path, name):
    setup, mesh, layout = SETUPS[name]
    convert(
        folders[setup.data], tmp_path / "records", setup.resolution, spacing=setup.spacing, workers=1, progress=False
    )
    results = groups.get(4).run(segmentation.held_out, setup, tmp_path / "records", mesh, layout)
    scores, pictures = segmentation.held_out(setup, tmp_path / "records")
    assert [each for each, _ in results] == [scores] * 4
    assert 0 < scores[LARGEST[setup.data]] < 1
    title = f"case {FIRST[setup.data]}"
    assert pictures.keys() == results[0][1].keys() == {title}
    np.testing.assert_array_equal(results[0][1][title], pictures[title])
    assert not any(drawn for _, drawn in results[1:]), "only process 0 draws"


@pytest.mark.parametrize(
    ("sizes", "mesh", "layout"),
    [
        ((9, 6, 5), "rows:4", "x:rows"),
        ((9, 6, 5), "cores:4", "batch:cores"),
        ((3, 7, 4), "rows:2,cores:2", "y:rows,batch:cores"),  # one of the slabs is empty
        ((9, 6, 5), "rows:2,cores:2", "z:rows,channels:cores"),
        # In one process, `training/test_sliding_network.py` has several slices of windows.
        pytest.param((6, 6, 5), "cores:3", "batch:cores", marks=pytest.mark.slow),
        pytest.param((9, 6, 5), "rows:8", "y:rows", marks=pytest.mark.slow),
    ],
)
def test_windows_are_added_in_the_same_order(groups, sizes, mesh, layout):
    """Every process receives a slab, and has the same bits as one process."""
    *_, expected = segmentation.slid(sizes, (3, 4, 4))
    covered = np.zeros(sizes)
    for slab, region, whole in groups.get(3 if "3" in mesh else 4).run(
        segmentation.slid, sizes, (3, 4, 4), mesh, layout
    ):
        np.testing.assert_array_equal(slab, expected[region])
        np.testing.assert_array_equal(whole, expected)
        covered[region[:3]] += 1
    np.testing.assert_array_equal(covered, 1)


@pytest.mark.parametrize(
    ("mesh", "layout"), [("rows:4", "x:rows"), ("cores:4", "batch:cores"), ("rows:2,cores:2", "y:rows,batch:cores")]
)
def test_windows_of_several_inputs_and_outputs(groups, mesh, layout):
    expected = segmentation.slid_with_age((9, 6, 5), (3, 4, 4))
    for prediction in groups.get(4).run(segmentation.slid_with_age, (9, 6, 5), (3, 4, 4), mesh, layout):
        assert prediction.keys() == {"aged", "both"}
        for name, values in prediction.items():
            np.testing.assert_array_equal(values, expected[name])


def open_voxels(folder):
    """Returns the open voxels of each case and the reliability, by the path of their file, whatever its slabs are."""
    found = {}
    for path in folder.glob("calibration/*.npz"):
        parts = [
            np.column_stack([opened.start + np.argwhere(opened.is_open), opened.probabilities])
            for opened in read_open_voxels(path)
        ]
        rows = np.concatenate(parts)
        assert len(rows), "thresholds cannot change any voxel"
        with np.load(path) as file:
            found[path.relative_to(folder).as_posix()] = sorted(rows.tolist()), file["reliability"].tolist()
    return found
