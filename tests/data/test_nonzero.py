"""Images with a removed background are cropped to their nonzero voxels, and predictions are mapped back exactly."""

import dataclasses
import json

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.description.dataset_json import read_description, write_description
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.intensities.schemes import Intensity
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from tests.data.conftest import _store
from tests.kinds.volumes import network_input, read_case, segment_volume
from tests.records import read_record

STRIPPED = Description(
    ("T1w", "FLAIR"),
    {"edema": 1, "core": 2},
    {"edema": (1,), "core": (2,)},
    intensities=(Intensity("z-score of nonzero voxels"), Intensity("percentiles")),
)
SHAPE, AROUND = (6, 5, 7), ((3, 1), (0, 4), (2, 2))
SIZES = ["whole", "with a spacing"]


def whole_and_cropped(folder, codes="RAS"):
    """Writes a case, and the same case without its planes of zeros."""
    rng = np.random.default_rng(0)
    channels, labels = rng.normal(300, 50, (2, *SHAPE)).astype(np.float32), rng.integers(0, 3, SHAPE).astype(np.uint8)
    channels[0, 0] = channels[1, :, :2] = channels[:, 2, 2, 2] = 0  # the box is that of both channels together
    for name, margins in (("whole", AROUND), ("cropped", ((0, 0),) * 3)):
        for number, values in enumerate(channels):
            _store(folder / name / f"imagesTr/a_{number:04}.nii.gz", np.pad(values, margins), codes)
        _store(folder / name / "labelsTr/a.nii.gz", np.pad(labels, margins), codes)
        write_description(folder / name, STRIPPED, 1)


@pytest.mark.parametrize("codes", ["RAS", "PSL"])
@pytest.mark.parametrize("size", [{"resolution": "x:4,y:6,z:5"}, {"resolution": "x:8,y:6,z:8", "spacing": "1,2,2.5"}])
def test_a_record_of_a_cropped_image_equals_that_of_a_smaller_file(tmp_path, codes, size):
    whole_and_cropped(tmp_path, codes)
    convert(tmp_path / "whole", tmp_path / "of_whole", **size, progress=False, crop_to_nonzero=True)
    convert(tmp_path / "cropped", tmp_path / "of_cropped", **size, progress=False)
    found, expected = (read_record(record_path(tmp_path / name, "a")) for name in ("of_whole", "of_cropped"))
    np.testing.assert_array_equal(found.image, expected.image)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (found.shape, found.spacing, found.statistics) == (SHAPE, expected.spacing, expected.statistics)
    moved = found.affine[:3, 3] - expected.affine[:3, 3]
    np.testing.assert_allclose(moved, [3 * 1.5, 0, 2 * 3.0])  # both files have their first voxel at the same place
    assert open_records(tmp_path / "of_whole").description == dataclasses.replace(STRIPPED, crops_to_nonzero=True)


@pytest.mark.parametrize("sampling", [Sampling((4, 6, 5)), Sampling((8, 8, 8), (1.0, 2.0, 2.5))], ids=SIZES)
def test_a_prediction_is_that_of_the_cropped_image_padded_back(tmp_path, sampling):
    whole_and_cropped(tmp_path)
    images = {name: read_case(find_cases(tmp_path / name)[0], description=STRIPPED) for name in ("whole", "cropped")}
    cropping = dataclasses.replace(STRIPPED, crops_to_nonzero=True)
    inputs = [network_input(images["cropped"], sampling, description=STRIPPED)]
    inputs.append(network_input(images["whole"], sampling, description=cropping))
    np.testing.assert_array_equal(*inputs)
    probabilities = np.random.default_rng(1).random((*sampling.grid, 3), np.float32)
    expected = segment_volume(images["cropped"], sampling, lambda image: probabilities, description=STRIPPED)
    found = segment_volume(images["whole"], sampling, lambda image: probabilities, description=cropping)
    np.testing.assert_array_equal(found, np.pad(expected, AROUND))
    assert expected.any()


def test_an_image_of_zeros_is_not_cropped(tmp_path):
    whole_and_cropped(tmp_path)
    for path in (tmp_path / "whole/imagesTr").iterdir():
        image = nibabel.load(path)
        nibabel.save(nibabel.Nifti1Image(np.zeros(image.shape, np.float32), image.affine), path)
    convert(tmp_path / "whole", tmp_path / "records", 4, progress=False, crop_to_nonzero=True)
    assert read_record(record_path(tmp_path / "records", "a")).shape == (10, 9, 11)


def test_labels_beyond_the_nonzero_voxels_are_counted(tmp_path, caplog):
    whole_and_cropped(tmp_path)
    path = tmp_path / "whole/labelsTr/a.nii.gz"
    mask = nibabel.load(path)
    labels = np.asarray(mask.dataobj).copy()
    labels[0, 0] = 2  # 11 voxels of the margin
    nibabel.save(nibabel.Nifti1Image(labels, mask.affine), path)
    convert(tmp_path / "whole", tmp_path / "records", 4, progress=False, crop_to_nonzero=True)
    assert f"11 of {np.count_nonzero(labels == 2)} core voxels lie outside the box" in caplog.text


def test_a_dataset_json_may_demand_it(tmp_path):
    whole_and_cropped(tmp_path)
    path = tmp_path / "whole/dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"crop_to_nonzero": True}))
    description = read_description(tmp_path / "whole")
    assert description.crops_to_nonzero
    assert from_fields(as_fields(description)) == description
    convert(tmp_path / "whole", tmp_path / "records", 4, progress=False)
    assert read_record(record_path(tmp_path / "records", "a")).shape == SHAPE


def test_whole_and_cropped_records_do_not_mix(tmp_path):
    whole_and_cropped(tmp_path)
    convert(tmp_path / "whole", tmp_path / "records", 4, progress=False)
    text = r"this record has the whole image\. Fix: convert to another folder"
    with pytest.raises(DataError, match=text):
        convert(tmp_path / "whole", tmp_path / "records", 4, progress=False, crop_to_nonzero=True)
