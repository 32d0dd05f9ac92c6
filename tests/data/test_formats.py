"""What holds for every format: volumes, labels and maps are where they were, and unusable files are refused by name."""

import itertools
import json
import os
import sys

import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats import all_formats
from mtf_imaging.data.formats.all_formats import (
    check_writable,
    open_stored,
    read_stored_provenance,
    write_label_slabs,
    write_map_slabs,
)
from mtf_imaging.data.formats.dicom.label_codes import codes_of_labels
from mtf_imaging.data.images import voxel_values
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.data.reading.open_sources import open_volume
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.errors import DataError
from mtf_imaging.files.provenance.package import Package
from mtf_imaging.files.provenance.provenance import Provenance
from tests.data.reading import read_image, read_mask, read_segmentation, read_volume
from tests.data.volume_files import SERIES, VOLUMES
from tests.records import contents, names
from tests.storage import as_nobody

PLACED = [name for name, volume in VOLUMES.items() if len(volume.codes) > 1]
PICTURES = [name for name in VOLUMES if name not in PLACED]
# The formats of segmentations and of maps; DICOM-SEG needs a series, and a picture one plane.
LABELS = [
    *itertools.product(
        (".nii.gz", ".nrrd", SERIES, ".ome.zarr"), (".nii", ".nii.gz", ".mgz", ".nrrd", ".mha", ".ome.zarr")
    ),
    (SERIES, ".dcm"),
    *itertools.product(PICTURES, PICTURES),
]
MAPS = [*itertools.product((".nii.gz", ".nrrd", SERIES, ".ome.zarr"), (".nii", ".nii.gz", ".ome.zarr"))]
ORIGIN = Provenance(Package("0.1.0", "33b0040c43707553"), (), {"window": [-160.0, 240.0]})


@pytest.fixture(autouse=True)
def warnings_again():
    voxel_values.warn_once.cache_clear()


def numbers(name):
    """Returns HU that any format can store; those of a picture are colors."""
    lowest, highest = (-1000, 1000) if name in PLACED else (0, 200)
    return np.random.default_rng(0).integers(lowest, highest, VOLUMES[name].shape, dtype=np.int16)


def labels_of(name):
    return np.random.default_rng(1).integers(0, 3, VOLUMES[name].shape).astype(np.uint8)


def with_codes(pairs):
    return [(source, target, codes) for source, target in pairs for codes in VOLUMES[source].codes]


def slabs(array, geometry, thickness=2):
    """Returns slabs of an array in canonical axes, in the order of the planes of its volume."""
    return [array[part] for part in geometry.plane_order.parts(whole_region(array.shape[:3]), thickness)]


def write_labels(path, parts, geometry, provenance=None):
    codes = codes_of_labels(LITS.labels, None) if path.suffix == ".dcm" else None
    write_label_slabs(path, parts, geometry, codes, provenance)
    return path


def write_maps(path, parts, geometry, provenance=None, count=3):
    write_map_slabs(path, parts, geometry, "abc"[:count], provenance)
    return path


def same_bytes(first, second):
    found = [contents(path) if path.is_dir() else path.read_bytes() for path in (first, second)]
    return found[0] == found[1]


@pytest.mark.parametrize(("name", "codes"), [(name, codes) for name in VOLUMES for codes in VOLUMES[name].codes])
def test_a_volume_is_read(tmp_path, name, codes):
    hu, form = numbers(name), VOLUMES[name]
    path = form.write(tmp_path, hu, codes)
    volume = read_volume(path)
    assert volume.hu.dtype == np.int16
    np.testing.assert_array_equal(volume.hu, hu)
    for geometry in (volume.geometry, read_geometry(path)):
        assert geometry.axis_codes == codes
        assert geometry.shape == form.shape
        np.testing.assert_allclose(geometry.spacing, np.diag(form.affine)[:3])
        np.testing.assert_allclose(geometry.canonical_affine, form.affine, atol=1e-5)


@pytest.mark.parametrize("name", VOLUMES)
@pytest.mark.parametrize("thickness", [1, 3, 100])
def test_planes_and_regions_are_read_in_any_order(tmp_path, name, thickness):
    hu = numbers(name)
    path = VOLUMES[name].write(tmp_path, hu)
    (stored,), geometry = open_stored(path)
    planes, expected = stored.open(), geometry.to_stored(hu)
    depth = expected.shape[2]
    for start in reversed(range(0, depth, thickness)):
        at = slice(start, min(start + thickness, depth))
        np.testing.assert_array_equal(stored.scaled(planes.read(at)), expected[..., at])
    planes.close()
    depth = hu.shape[2]
    for region in [(slice(1, 6), slice(2, 4), slice(0, depth)), (slice(0, 7), slice(0, 6), slice(depth - 1, depth))]:
        np.testing.assert_array_equal(open_volume(path).read(region)[0], hu[region])


@pytest.mark.parametrize(("source", "target", "codes"), with_codes(LABELS))
def test_labels_lie_on_their_volume(tmp_path, source, target, codes):
    volume = read_volume(VOLUMES[source].write(tmp_path, numbers(source), codes))
    labels, geometry = labels_of(source), volume.geometry
    path = write_labels(tmp_path / f"a{target}", slabs(labels, geometry), geometry)
    np.testing.assert_array_equal(read_mask(path, volume).labels, labels)
    if target == ".dcm":
        return  # the positions of its frames are those of the volume, and its identifiers are new in each file
    np.testing.assert_array_equal(read_segmentation(path).labels, labels)
    np.testing.assert_allclose(read_geometry(path).canonical_affine, geometry.canonical_affine, atol=1e-5)
    for thickness in (1, 100):
        other = write_labels(tmp_path / f"{thickness}/a{target}", slabs(labels, geometry, thickness), geometry)
        assert same_bytes(path, other)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("source", "target", "codes"), with_codes(MAPS))
def test_maps_lie_on_their_volume(tmp_path, source, target, codes, count):
    geometry = read_geometry(VOLUMES[source].write(tmp_path, numbers(source), codes))
    maps = np.random.default_rng(2).random((*geometry.shape, count), np.float32)
    path = write_maps(tmp_path / f"a{target}", slabs(maps, geometry), geometry, count=count)
    image = read_image([path], Description(channels=tuple("abc"[:count]), labels={"x": 1}, masks={"x": (1,)}))
    np.testing.assert_array_equal(np.stack(image.channels, -1), maps)
    np.testing.assert_allclose(image.geometry.canonical_affine, geometry.canonical_affine, atol=1e-5)
    other = write_maps(tmp_path / f"b/a{target}", slabs(maps, geometry, 100), geometry, count=count)
    assert same_bytes(path, other)


@pytest.mark.parametrize(
    ("source", "target", "write"),
    [*((*pair, write_labels) for pair in LABELS), *((*pair, write_maps) for pair in MAPS)],
)
def test_provenance_is_kept(tmp_path, source, target, write):
    geometry = read_geometry(VOLUMES[source].write(tmp_path, numbers(source)))
    values = labels_of(source) if write is write_labels else np.zeros((*geometry.shape, 3), np.float32)
    path = write(tmp_path / f"a{target}", [values], geometry, ORIGIN)
    found = read_stored_provenance(path)
    if target in (*PICTURES, ".mgz"):
        assert found is None
    elif target.startswith(".nii"):
        assert found == ORIGIN.note
    else:
        assert json.loads(found) == json.loads(ORIGIN.text())
    if target not in (*PICTURES, ".mgz", ".dcm"):  # a DICOM-SEG file always states the package
        assert read_stored_provenance(write(tmp_path / f"b{target}", [values], geometry)) == ""


@pytest.mark.parametrize(
    ("source", "target", "write"),
    [*((*pair, write_labels) for pair in LABELS), *((*pair, write_maps) for pair in MAPS)],
)
def test_a_failing_write_leaves_the_old_file_and_no_other(tmp_path, source, target, write):
    geometry = read_geometry(VOLUMES[source].write(tmp_path / "cases", numbers(source)))
    values = labels_of(source)
    values = values if write is write_labels else np.repeat(values[..., np.newaxis], 3, -1).astype(np.float32)
    path = write(tmp_path / "out" / f"a{target}", [values], geometry)
    before = contents(path.parent)

    def full_disk():
        yield slabs(values, geometry, 1)[0]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write(path, full_disk(), geometry)
    axis = geometry.plane_order.axis
    for wrong in (values[1:], values[:, :-1], np.delete(values, 0, axis), np.repeat(values, 2, axis)):
        with pytest.raises(DataError, match=rf"a\{target}: the labels have shape .*, but the volume has shape"):
            write(path, [wrong], geometry)
    assert contents(path.parent) == before
    assert names(path.parent) == [path.name]


def _segmentation(folder):
    geometry = read_geometry(VOLUMES[SERIES].write(folder, numbers(SERIES)))
    return write_labels(folder / "segmentation-3.dcm", [labels_of(SERIES)], geometry)


def _pipe(file):
    file.unlink()
    os.mkfifo(file)


def _folder(file):
    file.unlink()
    file.mkdir()


# name: (what happens to the file with the voxels, the text of the error)
_DAMAGED = (
    "cannot be read as|this chunk is damaged or truncated|its header declares .* voxels of .* but the file has|"
    "has .* bytes of pixels, but its header declares|this DICOM file has no pixel data"
)
FAULTS = {
    "truncated": (lambda file: file.write_bytes(file.read_bytes()[:-40]), _DAMAGED),
    "half": (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), _DAMAGED),
    "empty": (lambda file: file.write_bytes(b""), _DAMAGED),
    "text": (lambda file: file.write_text("no image at all"), _DAMAGED),
    "pipe": (_pipe, "is a named pipe, not a file"),
    "folder": (_folder, "is a folder|Is a directory|holds no DICOM file|does not exist"),
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [pair for pair in itertools.product((*VOLUMES, ".dcm"), FAULTS) if pair != (SERIES, "folder")],  # which it skips
)
def test_damaged_files_are_refused_by_name(tmp_path, name, fault):
    path = _segmentation(tmp_path) if name == ".dcm" else VOLUMES[name].write(tmp_path, numbers(name))
    damage, expected = FAULTS[fault]
    damage(path if name == ".dcm" else VOLUMES[name].voxel_file(path))
    with pytest.raises(DataError, match=rf"^{tmp_path}/.*({expected}).*Fix: "):
        (read_segmentation if name == ".dcm" else read_volume)(path)


@pytest.mark.parametrize("name", [*VOLUMES, ".dcm"])
def test_missing_and_unreadable_files_are_named(open_folder, name):
    path = _segmentation(open_folder) if name == ".dcm" else VOLUMES[name].write(open_folder, numbers(name))
    file = path if name == ".dcm" else VOLUMES[name].voxel_file(path)
    read = read_segmentation if name == ".dcm" else read_volume
    if file.suffix != ".raw":  # SimpleITK names the header, and another reason
        file.chmod(0)
        with as_nobody(), pytest.raises(DataError, match=rf"{file}: Permission denied\. Fix: allow"):
            read(path)
    os.rename(path, open_folder / "elsewhere")
    with pytest.raises(DataError, match=rf"^{path}: (No such file or directory|is not a folder).* Fix: "):
        read(path)


# what is opened or written: (the module that it needs, the text of the error)
PACKAGES = {
    ".nrrd": (
        "SimpleITK",
        r'the package SimpleITK, which is not installed\. Fix: run pip install "mtf-imaging\[itk\]"',
    ),
    SERIES: ("pydicom", r'need the package pydicom 3, which .*Fix: run pip install "mtf-imaging\[dicom\]"'),
    ".mha": ("SimpleITK", r'the package SimpleITK, which is not installed\. Fix: run pip install "mtf-imaging\[itk\]"'),
    ".dcm": ("highdicom", r'the package highdicom, which is not .* Fix: run pip install "mtf-imaging\[dicom-seg\]"'),
}


@pytest.mark.parametrize(
    ("names_of", "rows"),
    [
        ((*VOLUMES, ".dcm"), all_formats.FORMATS),
        (
            [target for _, target in LABELS],
            [row for row in all_formats.FORMATS if row.open is not all_formats.open_series],
        ),
    ],
    ids=["read", "written"],
)
def test_every_format_has_cases(tmp_path, names_of, rows):
    (tmp_path / "series").mkdir()
    assert {*rows} == {
        all_formats.format_of(tmp_path / f"a{name}" if name != SERIES else tmp_path) for name in names_of
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_named(tmp_path, monkeypatch, name):
    module, expected = PACKAGES[name]
    series = VOLUMES[SERIES].write(tmp_path, numbers(SERIES))
    path = VOLUMES[name].write(tmp_path, numbers(name)) if name in (SERIES, ".nrrd") else None
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=expected):
        open_stored(path) if path else check_writable(tmp_path / f"out{name}", series)
