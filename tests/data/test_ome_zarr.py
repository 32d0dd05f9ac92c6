"""OME-Zarr images: every order of axes and statement of geometry gives the same volume; faults are refused by name."""

import itertools
import logging
import shutil

import nibabel
import numpy as np
import pytest
import zarr

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.ome_zarr.image import open_ome_zarr
from mtf_imaging.data.formats.ome_zarr.writing import write_zarr_labels
from mtf_imaging.data.images import voxel_values
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.errors import DataError
from tests.data.reading import read_image, read_mask, read_segmentation, read_volume
from tests.data.test_formats import slabs
from tests.data.zarr_image import LPS, RAS, SCALE, TRANSLATION, axis_entries, edit_attributes, write_image

SHAPE = (7, 6, 5)
AFFINE = nibabel.affines.from_matvec(np.diag([*SCALE.values()]), [*TRANSLATION.values()])


@pytest.fixture(autouse=True)
def warnings_again():
    voxel_values.warn_once.cache_clear()


@pytest.fixture
def hu(arrays):
    return arrays()[0]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("order", ["".join(order) for order in itertools.permutations("xyz")] + ["tczyx", "zcyx"])
def test_every_order_of_axes_gives_the_same_volume(tmp_path, hu, order, version):
    stored = hu[..., np.newaxis] if "c" in order else hu
    volume = read_volume(write_image(tmp_path / "a.ome.zarr", stored, order, version))
    np.testing.assert_array_equal(volume.hu, hu)
    np.testing.assert_allclose(volume.geometry.canonical_affine, AFFINE)
    assert volume.geometry.axis_codes == "RAS"


# name: (unit, millimeters in it)
UNITS = {"micrometer": 1e-3, "millimeter": 1, "mm": 1, "centimeter": 10, "meter": 1000}


@pytest.mark.parametrize("unit", UNITS)
def test_units_become_millimeters(tmp_path, hu, unit):
    geometry = read_geometry(write_image(tmp_path / "a.ome.zarr", hu, unit=unit))
    np.testing.assert_allclose(geometry.affine[:3], AFFINE[:3] * UNITS[unit])


def test_our_affine_comes_first(tmp_path, hu):
    turn = nibabel.eulerangles.euler2mat(0.3, 0.2, -0.1)
    affine = nibabel.affines.from_matvec(turn @ np.diag([*SCALE.values()]), (1, 2, 3))
    path = write_image(tmp_path / "a.ome.zarr", hu, mtf_imaging={"affine": affine.tolist()})
    np.testing.assert_allclose(read_volume(path).geometry.affine, affine)


def test_transformations_of_the_image_follow_those_of_the_array(tmp_path, hu):
    path = write_image(tmp_path / "a.ome.zarr", hu)
    steps = [{"type": "scale", "scale": [2, 2, 2]}, {"type": "translation", "translation": [1, 2, 3]}]
    edit_attributes(path, lambda all: all["ome"]["multiscales"][0].update(coordinateTransformations=steps))
    expected = np.diag([2.0, 2.0, 2.0, 1.0]) @ AFFINE
    expected[:3, 3] += (3, 2, 1)
    np.testing.assert_allclose(read_geometry(path).affine, expected)


def test_missing_orientation_is_inferred_with_a_warning(tmp_path, caplog):
    """A spine at the high end of y shows that the axes are LPS."""
    hu = np.full((9, 8, 5), -1000, np.int16)
    hu[2:7, 1:7] = 50
    hu[4, 5:7] = 500
    caplog.set_level(logging.WARNING)
    path = write_image(tmp_path / "a.ome.zarr", hu, directions=None)
    volume = read_volume(path)
    assert "its metadata does not state the anatomical orientation of the axes; read as LPS" in caplog.text
    assert "with voxels of 1.5 x 2 x 3 mm, from its metadata" in caplog.text
    np.testing.assert_allclose(volume.geometry.affine, np.diag([-1, -1, 1, 1]) @ AFFINE)
    caplog.clear()
    volume = read_volume(write_image(tmp_path / "b.ome.zarr", hu[:, ::-1], directions=None))
    assert "read as RAS, with voxels of 1.5 x 2 x 3 mm" in caplog.text
    np.testing.assert_allclose(volume.geometry.affine, AFFINE)


def test_missing_units_are_millimeters_with_a_warning(tmp_path, hu, caplog):
    geometry = read_geometry(write_image(tmp_path / "a.ome.zarr", hu, unit=None))
    np.testing.assert_allclose(geometry.affine, AFFINE)
    assert "does not state the unit of the axes; the scale is read as millimeters" in caplog.text


@pytest.mark.parametrize("order", ["czyx", "zyxc"])
def test_channels_are_read_by_name(tmp_path, order):
    values = np.random.default_rng(0).normal(size=(*SHAPE, 2)).astype(np.float32)
    description = Description(channels=("T1", "T2"), labels={"tumor": 1}, masks={"tumor": (1,)})
    path = write_image(tmp_path / "a.ome.zarr", values, order)
    image = read_image([path], description)
    for number, channel in enumerate(image.channels):
        np.testing.assert_array_equal(channel, values[..., number])
    with pytest.raises(DataError, match=r"has 2 channel\(s\) of shape .* but 1 are needed: a single volume"):
        read_volume(path)


@pytest.mark.parametrize("dtype", [bool, np.uint16, np.dtype(">i2"), np.float32])
def test_types_of_labels(tmp_path, arrays, dtype):
    labels = (arrays()[1] > 1).astype(dtype)
    found = read_segmentation(write_image(tmp_path / "a.ome.zarr", labels))
    np.testing.assert_array_equal(found.labels, labels.astype(np.uint8))


def test_a_region_reads_its_chunks_only(tmp_path, hu):
    path = write_image(tmp_path / "a.ome.zarr", hu)
    shutil.rmtree(path / "full" / "c" / "1")  # the planes from 4 on
    (stored,), _ = open_ome_zarr(path)
    np.testing.assert_array_equal(stored.open().read(slice(2, 4)), hu[..., 2:4])


def _ome(path):
    return zarr.open_group(path, mode="r").attrs["ome"]


def _axes(**changes):
    def change(path):
        entries = axis_entries("zyx", **changes)
        edit_attributes(path, lambda all: all["ome"]["multiscales"][0].update(axes=entries))

    return change


def _axis(number, **values):
    def change(path):
        edit_attributes(path, lambda all: all["ome"]["multiscales"][0]["axes"][number].update(values))

    return change


def _edit(change):
    return lambda path: edit_attributes(path, change)


def _steps(*steps):
    return _edit(lambda all: all["ome"]["multiscales"][0]["datasets"][0].update(coordinateTransformations=[*steps]))


def _delete_chunks(path):
    shutil.rmtree(path / "full" / "c")


# name: (change of a good image, text of the error)
REFUSED = {
    "no group": (lambda path: (path / "zarr.json").unlink(), "cannot be read as a Zarr group"),
    "damaged metadata": (lambda path: (path / "zarr.json").write_text("{"), "a.ome.zarr/zarr.json: not a JSON file"),
    "no multiscales": (_edit(lambda all: all["ome"].pop("multiscales")), "has no 'multiscales' in its attributes"),
    "no attributes": (_edit(lambda all: all.clear()), "has no 'multiscales' in its attributes"),
    "a collection": (
        _edit(lambda all: all.update(ome={"version": "0.5", "bioformats2raw.layout": 3})),
        r"a collection of images, \['bioformats2raw.layout'\]\. Fix: give the folder of one",
    ),
    "old version": (
        _edit(lambda all: all["ome"].update(version="0.3")),
        r"has version 0.3 of OME-Zarr, but only 0.4 and",
    ),
    "new version": (
        _edit(lambda all: all["ome"].update(version="0.6")),
        r"has version 0.6 of OME-Zarr, but only 0.4 and",
    ),
    "names as axes": (
        _edit(lambda all: all["ome"]["multiscales"][0].update(axes=["z", "y", "x"])),
        "a.ome.zarr: cannot be read as OME-Zarr: .*Fix",
    ),
    "two axes": (
        _edit(lambda all: all["ome"]["multiscales"][0].update(axes=axis_entries("yx", directions=None))),
        r"its axes are y \(space\), x \(space\), but a volume has x, y and z",
    ),
    "unknown type": (_axis(0, type="angle"), "axis z has the type 'angle', .* of which one is not known"),
    "unknown unit": (
        _axis(1, unit="parsec"),
        "axis y has .* the unit 'parsec' .*Fix: .*nanometer",
    ),
    "unknown orientation": (
        _axis(2, orientation={"type": "anatomical", "value": "dorsal-to-palmar"}),
        "axis x has .* the orientation 'dorsal-to-palmar', of which one is not known",
    ),
    "orientation twice": (
        _axis(2, orientation={"type": "anatomical", "value": "inferior-to-superior"}),
        "the orientations of x, y and z are not one for each direction in the patient. Fix: state all three",
    ),
    "orientation of two axes": (
        _edit(lambda all: all["ome"]["multiscales"][0]["axes"][0].pop("orientation")),
        "the orientations of x, y and z are not one for each direction",
    ),
    "more axes than dimensions": (
        _edit(lambda all: all["ome"]["multiscales"][0].update(axes=axis_entries("czyx"))),
        r"its scale is \[.*\], but there are 4 axes",
    ),
    "scale of 0": (
        _steps({"type": "scale", "scale": [1, 0, 1]}),
        r"amount to the scale \[1.0, 0.0, 1.0\] .*not lengths",
    ),
    "scale as text": (_steps({"type": "scale", "scale": ["1", "1", "1"]}), "is not a list of numbers"),
    "rotation": (_steps({"type": "affine", "affine": [[1]]}), "only scale and translation are known"),
    "another affine": (
        _edit(lambda all: all.update(mtf_imaging={"affine": np.eye(4).tolist()})),
        r"the affine in 'mtf_imaging' has voxels of 1 x 1 x 1 mm, but the scale states 1.5 x 2 x 3 mm",
    ),
    "no datasets": (
        _edit(lambda all: all["ome"]["multiscales"][0].pop("datasets")),
        "cannot be read as OME-Zarr: .*'datasets'",
    ),
    "no array": (lambda path: shutil.rmtree(path / "full"), "its array 'full' cannot be opened"),
    "damaged array": (
        lambda path: (path / "full" / "zarr.json").write_text("{}"),
        "full/zarr.json: cannot be read as the metadata of a Zarr array: .*'zarr_format'",
    ),
    "no chunks": (_delete_chunks, r"a.ome.zarr/full: 8 of 8 chunk\(s\) are missing: c/0/0/0, c/0/0/1, c/0/1/0, \.\.\."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_images_are_refused_by_name(tmp_path, hu, name):
    change, message = REFUSED[name]
    path = write_image(tmp_path / "a.ome.zarr", hu)
    change(path)
    with pytest.raises(DataError, match=message):
        read_volume(path)


def test_several_points_in_time_are_refused(tmp_path, hu):
    path = write_image(tmp_path / "a.ome.zarr", hu, "tzyx")
    full = zarr.open_array(path / "full", mode="r+")
    full.resize((3, *full.shape[1:]))
    with pytest.raises(DataError, match=r"has the shape \(3, 5, 6, 7\), but its axes are t, z, y, x\. Fix: store one"):
        read_volume(path)


def test_voxels_of_several_numbers_are_refused(tmp_path, hu):
    with pytest.raises(DataError, match="voxels are of type 'complex64', not plain numbers"):
        read_volume(write_image(tmp_path / "a.ome.zarr", hu.astype(np.complex64)))


def test_a_missing_chunk_is_warned_of(tmp_path, hu, caplog):
    path = write_image(tmp_path / "a.ome.zarr", hu)
    (path / "full" / "c" / "0" / "1" / "0").unlink()
    volume = read_volume(path)
    assert (
        r"a.ome.zarr/full: 1 of 8 chunk(s) are missing: c/0/1/0; their voxels are read as 0, the fill value"
        in caplog.text
    )
    assert not volume.hu[:4, 4:, :4].any()


def test_the_first_level_is_the_finest(tmp_path):
    path = write_image(tmp_path / "a.ome.zarr", np.zeros(SHAPE, np.int16))

    def add(attributes):
        levels = attributes["ome"]["multiscales"][0]["datasets"]
        finer = [{"type": "scale", "scale": [0.5, 0.5, 0.5]}]
        levels.append({"path": "half", "coordinateTransformations": finer})

    edit_attributes(path, add)
    with pytest.raises(DataError, match=r"its first level is not the finest: 'full' with .* and 'half' with"):
        open_ome_zarr(path)


def test_labels_may_lack_chunks_of_the_background(tmp_path, caplog):
    path = write_image(tmp_path / "a.ome.zarr", np.zeros(SHAPE, np.uint8))
    edit_attributes(path, lambda all: all["ome"].update({"image-label": {}}))
    assert not (path / "full" / "c").exists()
    assert not read_segmentation(path).labels.any()
    assert "missing" not in caplog.text


# name: stored axes of a NIfTI volume
@pytest.mark.parametrize("codes", ["RAS", "LPS", "SAL", "PIR"])
def test_labels_of_nifti_volumes_are_stored_in_canonical_axes(tmp_path, monkeypatch, store, arrays, codes):
    monkeypatch.setattr("mtf_imaging.data.formats.ome_zarr.writing._CHUNK", 4)
    hu, labels = arrays()
    volume = read_volume(store(tmp_path / "volume.nii", hu, codes))
    path = tmp_path / "segmentation-3.ome.zarr"
    write_zarr_labels(path, slabs(labels, volume.geometry, 2), volume.geometry)
    plain = zarr.open_group(path, mode="r")
    np.testing.assert_array_equal(plain["0"][...], labels.T)
    assert plain["0"].dtype == np.uint8
    assert plain["0"].metadata.dimension_names == ("z", "y", "x")
    ome = plain.attrs["ome"]
    assert (ome["version"], ome["image-label"], ome["multiscales"][0]["name"]) == ("0.5", {}, "segmentation-3")
    assert ome["multiscales"][0]["axes"] == axis_entries("zyx")
    for dataset, step in zip(ome["multiscales"][0]["datasets"], (1, 2), strict=True):
        np.testing.assert_array_equal(plain[dataset["path"]][...], labels.T[::step, ::step, ::step])
        scale, translation = dataset["coordinateTransformations"]
        np.testing.assert_allclose(scale["scale"], step * np.array(volume.geometry.spacing[::-1]))
        np.testing.assert_allclose(translation["translation"], volume.geometry.canonical_affine[2::-1, 3])
    mask = read_mask(path, volume)
    np.testing.assert_array_equal(mask.labels, labels)
    np.testing.assert_array_equal(read_segmentation(path).labels, labels)


def test_labels_of_an_oblique_volume_keep_their_place(tmp_path, arrays):
    hu, labels = arrays()
    turn = nibabel.eulerangles.euler2mat(0.3, 0.2, -0.1)
    affine = nibabel.affines.from_matvec(turn @ np.diag([-1.5, -2, 3]), (5, 6, 7))
    nibabel.save(nibabel.Nifti1Image(hu, affine), tmp_path / "volume.nii")
    volume = read_volume(tmp_path / "volume.nii")
    write_zarr_labels(tmp_path / "s.ome.zarr", slabs(labels, volume.geometry, 3), volume.geometry)
    found = read_segmentation(tmp_path / "s.ome.zarr")
    np.testing.assert_allclose(found.geometry.canonical_affine, volume.geometry.canonical_affine, atol=1e-9)


@pytest.mark.parametrize("directions", [RAS, LPS, None], ids=["RAS", "LPS", "none"])
@pytest.mark.parametrize("order", ["zyx", "xyz", "czyx"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_of_zarr_volumes_state_the_same_place(tmp_path, arrays, order, directions, version):
    hu, labels = arrays()
    stored = hu[..., np.newaxis] if "c" in order else hu
    path = write_image(tmp_path / "volume.ome.zarr", stored, order, version, "micrometer", directions)
    volume = read_volume(path)
    output = tmp_path / "segmentation.ome.zarr"
    write_zarr_labels(output, slabs(labels, volume.geometry, 1), volume.geometry)
    plain, spatial = zarr.open_group(output, mode="r"), order.removeprefix("c")
    expected = volume.geometry.to_stored(labels).transpose(["xyz".index(name) for name in spatial])
    np.testing.assert_array_equal(plain["0"][...], expected)
    found = plain.attrs["ome"]["multiscales"][0]
    assert found["axes"] == axis_entries(spatial, "micrometer", directions)
    steps = found["datasets"][0]["coordinateTransformations"]
    assert steps[0]["scale"] == [SCALE[name] for name in spatial]
    assert steps[1]["translation"] == [TRANSLATION[name] for name in spatial]
    np.testing.assert_array_equal(read_mask(output, volume).labels, labels)
