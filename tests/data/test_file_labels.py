"""Names that files of labels state: values are matched by name; and values with gaps are read and written."""

import nibabel
import numpy as np
import pytest
import SimpleITK

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.file_labels import labels_of_values
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.errors import DataError
from tests.data import volume_files
from tests.data.reading import read_segmentation
from tests.data.zarr_image import edit_attributes, write_image

SHAPE = (6, 5, 4)
NAMES = {"left kidney": 1, "right_kidney": 2}
OWN = Description(("CT",), {"kidney_left": 1, "kidney_right": 2}, {"kidney_left": (1,), "kidney_right": (2,)})
GAPS = Description(("CT",), {"a": 1, "b": 2}, {"a": (1,), "b": (2,)}, ignore=3, stored={1: 205, 2: 420, 3: 500})


def labels_of():
    labels = np.zeros(SHAPE, np.uint8)
    labels[0, 1, 2], labels[3:, 1:, :2] = 1, 2
    return labels


def _nrrd(path, labels, names):
    image = volume_files.itk_image(labels, np.eye(4))
    for number, (name, value) in enumerate(names.items()):
        image.SetMetaData(f"Segment{number}_Name", name)
        image.SetMetaData(f"Segment{number}_LabelValue", str(value))
    SimpleITK.WriteImage(image, str(path))


def _nifti(path, labels, names):
    image = nibabel.Nifti1Image(labels, np.eye(4))
    table = "".join(f'<Label Key="{v}" Red="1"><![CDATA[{name}]]></Label>' for name, v in names.items())
    content = f"<CaretExtension><LabelTable>{table}</LabelTable></CaretExtension>".encode()
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(0, content))
    nibabel.save(image, path)


def _zarr(path, labels, names):
    properties = [{"label-value": value, "name": name} for name, value in names.items()]
    write_image(path, labels)
    edit_attributes(path, lambda all: all["ome"].update({"image-label": {"properties": properties}}))


WRITERS = {"a.seg.nrrd": _nrrd, "a.nii.gz": _nifti, "a.ome.zarr": _zarr}


@pytest.mark.parametrize("name", WRITERS)
def test_names_in_a_file_decide_about_its_values(tmp_path, caplog, name):
    labels, path = labels_of(), tmp_path / name
    WRITERS[name](path, labels, NAMES)
    np.testing.assert_array_equal(read_segmentation(path, description=OWN).labels, labels)
    assert "unlike dataset.json" not in caplog.text
    other = tmp_path / f"b{name[1:]}"
    swapped = np.array([0, 3, 1], np.uint8)[labels]  # the second label has a value that dataset.json lacks
    WRITERS[name](other, swapped, {"left kidney": 3, "right_kidney": 1})
    np.testing.assert_array_equal(read_segmentation(other, description=OWN).labels, labels)
    assert f"{other.name}: its header names the values 3 left kidney, 1 right_kidney, unlike" in caplog.text


def test_unnamed_values_beside_moved_names_are_refused(tmp_path):
    _nrrd(tmp_path / "a.nrrd", labels_of(), {"left kidney": 2})
    with pytest.raises(DataError, match=r"a\.nrrd: has the label\(s\) 1, but"):
        read_segmentation(tmp_path / "a.nrrd", description=OWN)
    assert labels_of_values(OWN, {1: "liver"}) == {0: 0, 1: 1, 2: 2}


@pytest.mark.parametrize("ending", [".nii.gz", ".nrrd", ".mha", ".ome.zarr"])
def test_values_with_gaps_are_read_and_written(tmp_path, ending):
    labels = np.array([0, 3, 2], np.uint8)[labels_of()]
    values = np.array([0, 205, 420, 500], np.uint16)[labels]
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "a.nii.gz")
    read = read_segmentation(tmp_path / "a.nii.gz", description=GAPS)
    np.testing.assert_array_equal(read.labels, labels)
    path = tmp_path / f"b{ending}"
    write_label_slabs(path, [read.labels], read.geometry, stored=GAPS.stored)
    np.testing.assert_array_equal(read_segmentation(path, description=GAPS).labels, labels)
    with pytest.raises(DataError, match=r"a\.nii\.gz: has the label\(s\) 420, 500, but .* 205 a, 421 b"):
        read_segmentation(
            tmp_path / "a.nii.gz",
            description=Description(("CT",), dict(GAPS.labels), dict(GAPS.masks), stored={1: 205, 2: 421}),
        )
