"""What `inspect` shows of right and wrong data sets."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

import mtf_imaging as mi
from mtf_imaging.cli.main import main
from mtf_imaging.data.fingerprint import read_fingerprint
from mtf_imaging.kinds.objects.generator import write_objects
from mtf_imaging.kinds.photos.scenes import write_scenes
from tests import pages

AFFINE = np.diag([2.0, 2.0, 3.0, 1.0])
SHAPE = (12, 8, 6)


def save(path, array, affine=AFFINE):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(array, affine), path)


def image(seed=0):
    """Returns a CT with air on its left."""
    voxels = np.random.default_rng(seed).normal(40, 20, SHAPE).astype(np.int16)
    voxels[:2] = -1000
    return voxels


def mask(left=1, right=2):
    """Returns a mask with one block of 16 voxels on each side."""
    labels = np.zeros(SHAPE, np.uint8)
    labels[1:3, 2:6, 2:4], labels[9:11, 2:6, 2:4] = left, right
    return labels


def data_set(folder, masks, names=("kidney_left", "kidney_right"), channel="CT", affine=AFFINE):
    """Writes a data set of nnU-Net with a case for each mask."""
    for number, labels in enumerate(masks):
        save(folder / f"imagesTr/c_{number}_0000.nii.gz", image(number), affine)
        save(folder / f"labelsTr/c_{number}.nii.gz", labels, affine)
    labels = {"background": 0, **{name: value for value, name in enumerate(names, 1)}}
    fields = {"channel_names": {"0": channel}, "labels": labels, "file_ending": ".nii.gz"}
    folder.mkdir(exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps(fields))
    return folder


def inspect(folder, **settings):
    return mi.jobs.inspect(data_dir=folder, workers=1, progress=False, **settings)


def test_a_right_data_set_has_a_row_for_everything(tmp_path):
    found = inspect(data_set(tmp_path / "d", [mask(), mask(right=0)]))
    rows = dict(found.rows)
    assert rows["layout"] == "nnU-Net: imagesTr/NAME_0000 with labelsTr/NAME; labels of dataset.json"
    assert (rows["cases"], rows["files"], rows["grid"]) == ("2", "NIfTI 4", "12 x 8 x 6 voxels of 2 x 2 x 3 mm")
    assert rows["sides"] == "stored RAS -> x, y, z = R, A, S: 2 (c_0, c_1)"
    assert rows["CT"].startswith("-1000 to ")
    assert ": HU of a CT; labels have means from " in rows["CT"]
    left, right = found.labels
    assert (left.cases, left.count, left.ml, left.sides) == (2, 32, (0.192,) * 3, {"left": ["c_0", "c_1"]})
    assert (right.cases, right.count, right.sides, right.middle) == (1, 16, {"right": ["c_0"]}, (10 / 12, 0.5, 0.5))
    assert right.cells()[-2:] == ["right", "right"]
    assert (found.faults, found.warnings) == ((), ())
    assert [case["voxels"] for case in found.cases] == [{0: 544, 1: 16, 2: 16}, {0: 560, 1: 16}]


def test_voxels_of_an_unusual_size_have_both_readings(tmp_path):
    found = inspect(data_set(tmp_path / "d", [mask()], affine=np.diag([0.002, 0.002, 0.003, 1])))
    what = "is mm, so voxels have 0.002 x 0.002 x 0.003 mm, which is unusual. Fix: if its lengths are in m, set xyzt"
    assert any(what in text for text in found.warnings)


def test_cases_whose_labels_lie_on_other_values_are_named(tmp_path):
    right = np.where(np.arange(SHAPE[0])[:, None, None] // 2 == 2, np.uint8(1), np.zeros(SHAPE, np.uint8))
    found = inspect(data_set(tmp_path / "d", [right, right, np.roll(right, -4, axis=0), right, right], ("organ",)))
    (text,) = [text for text in found.warnings if text.startswith("labeled voxels")]
    assert " HU and the sd " in text
    assert " in most cases, unlike in c_2 (-1000, 0). Fix: " in text
    assert "; labels have means from -1000 to 4" in dict(found.rows)["CT"]


def test_cases_with_a_label_on_the_other_side_than_its_name_are_named(tmp_path):
    found = inspect(data_set(tmp_path / "d", [mask(2, 1), mask()]))
    assert found.labels[0].cells()[-2:] == ["right 1, left 1", "left"]
    assert sum(line.startswith("WARNING ") for line in found.text().splitlines()) == 2
    assert found.warnings[0].startswith("'kidney_left' lies on the right of the field of view in 1 of 2 cases: c_0.")


def test_the_page_shows_rows_labels_and_outlines(tmp_path):
    inspect(data_set(tmp_path / "d", [mask(2, 1), mask(right=7)]), page=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert ">WARNING</th>" in page
    assert ">UNUSABLE</th>" in page
    assert page.count("<h3>") == 1
    assert page.count('<path d="M') == 5  # two masks on the axial and coronal slices, one on the sagittal slice
    assert "metrics.json" not in page


def named_mask(path, *names):
    """Writes a mask that names its values 1, 2, ... itself, as Connectome Workbench does."""
    written = nibabel.Nifti1Image(mask(), AFFINE)
    text = "".join(f'<Label Key="{value}">{name}</Label>' for value, name in enumerate(names, 1))
    written.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", text.encode()))
    nibabel.save(written, path)


def objects_in_parts(folder):
    """Writes images whose boxes are parts of the image instead of pixels."""
    write_objects(folder, 4, seed=1, progress=False)
    for file in folder.glob("annotations/*.json"):
        fields = json.loads(file.read_text())
        for one in fields["annotations"]:
            one["bbox"] = [value / 1000 for value in one["bbox"]]
        file.write_text(json.dumps(fields))


WRONG = {
    "names in a file": (
        lambda d: named_mask(data_set(d, [mask()]) / "labelsTr/c_0.nii.gz", "kidney_right", "kidney_left"),
        "its header names the values 1 kidney_right, 2 kidney_left, unlike dataset.json",
    ),
    "a mask with layers": (
        lambda d: save(data_set(d, [mask()]) / "labelsTr/c_0.nii.gz", np.stack([mask(), mask()], axis=-1)),
        "has 2 channel(s)",
    ),
    "a normalized CT": (
        lambda d: save(data_set(d, [mask()]) / "imagesTr/c_0_0000.nii.gz", (image() / 1000).astype(np.float32)),
        "the image was probably normalized",
    ),
    "boxes as parts of an image": (objects_in_parts, "the boxes are parts of the image"),
    "a value without a name": (lambda d: data_set(d, [mask(right=7)]), "has the label(s) 7"),
    "a label that no case has": (lambda d: data_set(d, [mask(right=0)]), "no voxel of 'kidney_right'"),
    "a CT that is called T1w": (lambda d: data_set(d, [mask()], channel="T1w"), "HU of a CT"),
    "an empty mask": (lambda d: data_set(d, [mask(0, 0)]), "no voxel of 'kidney_left', 'kidney_right'"),
    "a mask of another size": (lambda d: data_set(d, [mask()[:6]]), "this mask has shape (6, 8, 6)"),
    "a mask without an image": (
        lambda d: (data_set(d, [mask()]), save(d / "labelsTr/c_1.nii.gz", mask())),
        "1 file(s) lack their partner",
    ),
    "a mask elsewhere": (
        lambda d: (
            data_set(d, []),
            save(d / "imagesTr/a_0000.nii", image()),
            save(d / "labelsTr/a.nii", mask(), -AFFINE),
        ),
        "its affine differs",
    ),
    "other names": (lambda d: save(d / "scans/a.nii.gz", image()), "but no case"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_on_the_first_screen(tmp_path, name):
    write, expected = WRONG[name]
    write(tmp_path / "d")
    screen = inspect(tmp_path / "d").text().splitlines()[:24]
    assert expected in " ".join(line.strip() for line in screen)


def test_one_image_needs_no_mask_and_a_missing_path_is_refused(tmp_path):
    save(tmp_path / "a.nii.gz", image())
    found = inspect(tmp_path / "a.nii.gz")
    assert (found.faults, dict(found.rows)["cases"]) == ((), "1, 0 with a mask")
    with pytest.raises(mi.DataError, match="does not exist"):
        inspect(tmp_path / "b")


def test_files_of_other_formats_are_named_once(tmp_path):
    folder = data_set(tmp_path / "d", [mask()])
    (folder / "a.mnc").touch()
    (folder / "dataset.json").unlink()
    (warning,) = [text for text in inspect(folder).warnings if "a.mnc" in text]
    assert [text for name, text in inspect(folder).all_rows if text == warning] == [warning]


def test_similar_faults_are_one(tmp_path):
    found = inspect(data_set(tmp_path / "d", [mask(right=7), mask(right=8), mask()]))
    assert len(found.faults) == 2
    (fault,) = [text for name, text in found.all_rows if name == "UNUSABLE"]
    assert fault.endswith("(and 1 like it)")
    assert dict(found.rows)["read"] == "1 of 3 cases; 2 more could not be read"


def test_a_sample_of_cases_is_read(tmp_path):
    found = inspect(data_set(tmp_path / "d", [mask(), mask(right=7)]), num_cases=1)
    assert found.faults == ()
    assert ["voxels" in case for case in found.cases] == [True, False]


def test_the_command_prints_text_or_json(tmp_path, capsys):
    folder = str(data_set(tmp_path / "d", [mask()]))
    assert main(["inspect", folder, "--workers", "1"]) == 0
    assert f"data      {folder}, volumes\n" in capsys.readouterr().out
    assert main(["inspect", folder, "--workers", "1", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert [label["name"] for label in fields["labels"]] == ["kidney_left", "kidney_right"]
    assert fields["cases"][0]["axis_codes"] == "RAS"
    assert main(["inspect", folder, folder]) == 2
    save(Path(folder) / "labelsTr/c_0.nii.gz", mask(right=7))
    assert main(["inspect", folder, "--workers", "1"]) == 1
    assert "d: 1 fault stops convert, plan and train. Fix: see the rows UNUSABLE." in capsys.readouterr().err


def test_middles_are_stored_with_a_fingerprint(tmp_path):
    folder, file = data_set(tmp_path / "d", [mask()]), tmp_path / "fingerprint.json"
    first = read_fingerprint(folder, file, progress=False)
    assert first.cases[0].middles[1] == (2 / 12, 0.5, 0.5)
    assert read_fingerprint(folder, file, progress=False) == first


def test_the_guide_shows_the_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data_set(tmp_path / "cases", [mask(2, 1), mask()])
    outputs = pages.outputs(Path(__file__).parents[2] / "docs/guides/inspect.md", "bash")
    shown = next(text for command, text in outputs if command == "mtf-imaging inspect cases\n")
    assert shown == f"{inspect('cases').text()}\n"


def test_photos_and_objects_are_counted(tmp_path):
    write_scenes(tmp_path / "photos", 4, seed=1, progress=False)
    write_objects(tmp_path / "objects", 4, seed=1, progress=False)
    for kind, title, unit in (("photos", "photos", "pixels"), ("objects", "images with objects", "objects")):
        found = inspect(tmp_path / kind, page=tmp_path / f"{kind}.html")
        assert (tmp_path / f"{kind}.html").read_text().count('src="data:image/jpeg;base64,') == len(found.cases) > 1
        rows = dict(found.rows)
        assert rows["data"].endswith(f", {title}")
        assert f", {unit}: " in rows["read"]
        assert sum(label.count for label in found.labels) > 0
        assert [len(row) for row in found.table] == [3] * (len(found.labels) + 1)


def test_a_photo_of_another_size_than_its_labels_is_unusable(tmp_path):
    write_scenes(tmp_path, 4, seed=1, progress=False)
    for photo in (tmp_path / "JPEGImages").iterdir():
        Image.new("RGB", (8, 8)).save(photo)
    (fault,) = inspect(tmp_path).faults
    assert "is 8 pixels wide and 8 high, but its label image" in fault


def test_a_list_of_photos_with_a_second_column_is_named(tmp_path):
    write_scenes(tmp_path, 4, seed=1, progress=False)
    for file in tmp_path.rglob("*.txt"):
        file.write_text("".join(f"{line} 1\n" for line in file.read_text().splitlines()))
    assert "UNUSABLE" in inspect(tmp_path).text()


def test_a_page_replaces_no_image(tmp_path):
    image = tmp_path / "volume-0.nii.gz"
    image.write_bytes(b"image")
    with pytest.raises(mi.DataError, match=r"the page is an HTML file\. Fix: name it volume-0\.nii\.html"):
        mi.jobs.inspect(data_dir=tmp_path, page=image, progress=False)
    assert image.read_bytes() == b"image"
