"""Segmentations and maps contain their provenance, which other libraries and `info` read."""

import json

import nibabel
import numpy as np
import pydicom
import pytest
import SimpleITK

import mtf_imaging as mi
from mtf_imaging.data.formats.all_formats import read_stored_provenance
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.files.provenance.package import Package
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import TrainedRun
from mtf_imaging.inference.network import of_function
from mtf_imaging.inference.uncertainty import with_entropy
from mtf_imaging.kinds.prediction_record import PredictionRecord
from mtf_imaging.kinds.volumes.segment.maps import NO_MAPS, MapChoice
from tests.data.reading import read_mask, read_volume
from tests.data.test_dicom_seg import SHAPE, labels_of, series
from tests.data.test_simpleitk import HU_OF_LABEL, oracle
from tests.data.zarr_image import write_image
from tests.kinds.volumes import plan_predictions, predict_cases, prediction_files

CASES = {str(number): "ab" for number in range(9)}
STARTS = [{"step": 4 * number, "version": "0.1.0", "layout": "x:rows", "mesh_shape": "rows:2"} for number in range(9)]
RUN = TrainedRun("run", "ckpt-4", "last", 4, "ab" * 32, "cd" * 32, {"starts": STARTS, "training_cases": CASES})
RULES = {"window": [-160.0, 240.0], "task": 'A("a\\b\n", é)', "cleanup": "none"}
LAYOUT = {"mesh_shape": "rows:2", "layout": "x:rows"}
ORIGIN = Provenance(Package("0.1.0", "33b0040c43707553"), (RUN,), RULES, LAYOUT)
FIELDS = {name: value for name, value in ORIGIN.as_json(lists_cases=False).items() if name != "layout"}


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    return series(tmp_path_factory.mktemp("made") / "series")


def predicted(volume, output, choice=NO_MAPS, origin=ORIGIN):
    """Returns the segmentation and the maps of a volume."""
    planned = plan_predictions(volume, output, maps=choice)
    record = PredictionRecord(prediction_files(planned.pairs, volume, output, choice), provenance=origin)
    network = of_function(oracle, 1, 3)
    network = with_entropy(network) if choice.uncertainty else network
    options = {"planned": planned, "record": record, "maps": choice}
    (written,) = predict_cases(volume, output, Sampling(SHAPE), network, progress=False, **options)
    return [written, *choice.paths(written, None)]


def zarr_fields(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["mtf_imaging"]["provenance"]


def itk_text(path, key):
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(path))
    reader.ReadImageInformation()
    return reader.GetMetaData(key)


@pytest.mark.parametrize("ending", [".nrrd", ".mha"])
def test_itk_reads_the_provenance(volume, tmp_path, ending):
    (path,) = predicted(volume, tmp_path / f"a{ending}")
    assert json.loads(itk_text(path, "mtf_imaging_provenance")) == FIELDS
    if ending == ".mha":
        assert f"\nComment = {ORIGIN.note}\n".encode() in path.read_bytes()
    source = read_volume(volume)
    np.testing.assert_array_equal(read_mask(path, source).labels, source.geometry.to_canonical(labels_of()))


def test_dicom_seg_contains_the_provenance(volume, tmp_path):
    (path,) = predicted(volume, tmp_path / "a.dcm")
    header = pydicom.dcmread(path)
    for segment in header.SegmentSequence:
        (algorithm,) = segment.SegmentationAlgorithmIdentificationSequence
        assert algorithm.AlgorithmName == "mtf_imaging"
        assert algorithm.AlgorithmVersion == "0.1.0+g33b0040c4"
        assert json.loads(algorithm.AlgorithmParameters.removeprefix("provenance=")) == FIELDS
    (equipment,) = [one for one in header.ContributingEquipmentSequence if one.Manufacturer == "mtf_imaging"]
    assert equipment.PurposeOfReferenceCodeSequence[0].CodeValue == "109102"
    assert equipment.ContributionDescription == ORIGIN.note
    assert header.SoftwareVersions == equipment.SoftwareVersions == "0.1.0+g33b0040c4"


def test_dicom_seg_shortens_a_long_provenance(volume, tmp_path):
    many = Provenance(ORIGIN.package, (RUN,) * 15, RULES)
    assert len(many.text()) > 10240
    (path,) = predicted(volume, tmp_path / "a.dcm", origin=many)
    runs = json.loads(read_stored_provenance(path))["runs"]
    assert [run["training"] for run in runs] == [None] * 15
    too_long = Provenance(ORIGIN.package, (RUN,), {"task": "a" * 10240})
    (path,) = predicted(volume, tmp_path / "b.dcm", origin=too_long)
    assert read_stored_provenance(path) == too_long.note
    assert dict(mi.jobs.info(path)[0].rows)["header"] == too_long.note


@pytest.mark.parametrize("ending", [".ome.zarr", ".nii.gz"])
def test_maps_contain_the_provenance(volume, tmp_path, ending):
    files = predicted(volume, tmp_path / f"a{ending}", MapChoice(probabilities=True, uncertainty=True))
    assert len(files) == 3
    for path in files:
        if ending == ".nii.gz":
            assert nibabel.load(path).header["descrip"].item().decode() == ORIGIN.note
        else:
            assert zarr_fields(path) == FIELDS


@pytest.mark.parametrize("ending", [".nrrd", ".mha", ".ome.zarr", ".nii.gz"])
def test_the_same_prediction_has_the_same_bytes(volume, tmp_path, ending):
    (first,), (second,) = (predicted(volume, tmp_path / folder / f"a{ending}") for folder in "xy")
    files = [path for path in (first, *first.rglob("*")) if path.is_file()]
    assert files
    for path in files:
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


@pytest.mark.parametrize("ending", [".nrrd", ".mha", ".dcm", ".ome.zarr"])
def test_info_prints_the_provenance_of_a_single_file(volume, tmp_path, ending):
    (path,) = predicted(volume, tmp_path / f"a{ending}")
    (one,) = mi.jobs.info(path)
    rows = dict(one.rows)
    assert rows["header"] == rows["program"] == "mtf_imaging 0.1.0+g33b0040c4"
    assert rows["checkpoint"] == f"ckpt-4 (last), step 4, {RUN.checkpoint_digest[:16]}"
    assert rows["window"] == "-160.0, 240.0"
    assert json.loads(one.fields.pop("header")) == FIELDS == one.fields
    (other,) = predicted(volume, tmp_path / f"b{ending}", origin=None)
    if ending != ".dcm":  # a DICOM-SEG file always states the package
        assert dict(mi.jobs.info(other)[0].rows)["header"] == "not recorded"


def test_the_segmentation_of_an_image_without_an_affine_is_read(tmp_path):
    labels = np.zeros(SHAPE, np.uint8)
    labels[1:5, 1:4, 1:3] = 1
    image = write_image(tmp_path / "volume-3.ome.zarr", HU_OF_LABEL[labels], scale=(1.5, 2.0, 3.0))
    (path,) = predicted(image, tmp_path / "a.ome.zarr")
    assert zarr_fields(path) == FIELDS
    np.testing.assert_array_equal(read_mask(path, read_volume(image)).labels, labels)
