"""OME-Zarr images of strangers: no code runs, nothing outside of the folder is read, and the work is bounded."""

import bz2
import gzip
import itertools
import json
import os
import pickle
import time
import zlib

import numpy as np
import pytest
from numcodecs import blosc, lz4, zstd

from mtf_imaging.cli.main import main
from mtf_imaging.data.formats.ome_zarr.codecs import COMPRESSORS, decompress_blosc
from mtf_imaging.data.formats.ome_zarr.writing import write_zarr_labels
from mtf_imaging.data.images import voxel_values
from mtf_imaging.data.images.spacing_table import SpacingTable
from mtf_imaging.errors import DataError
from tests.data.json_values import replacements
from tests.data.reading import read_segmentation, read_volume
from tests.data.zarr_image import (
    Payload,
    axis_entries,
    edit_attributes,
    edit_json,
    fill_chunks,
    plant_code,
    write_image,
)

SHAPE = (7, 6, 5)
FOREVER = 10  # seconds; each case takes a few milliseconds


@pytest.fixture(autouse=True)
def warnings_again():
    voxel_values.warn_once.cache_clear()


@pytest.fixture
def hu(arrays):
    return arrays()[0]


@pytest.fixture
def image(tmp_path, hu):
    """An image in Zarr format 3."""
    return write_image(tmp_path / "volume-0.ome.zarr", hu)


@pytest.fixture
def old_image(tmp_path, hu):
    """An image in Zarr format 2."""
    return write_image(tmp_path / "volume-0.ome.zarr", hu, version="0.4")


# name: (changes of .zarray, text of the error)
CODECS_V2 = {
    "compressor": ({"compressor": {"id": "pickle"}}, "have the codec 'pickle', but only blosc, zstd, gzip, zlib"),
    "filter": (
        {"filters": [{"id": "pickle", "protocol": 5}]},
        r"have the filters \['pickle'\], but filters",
    ),
    "objects": ({"dtype": "|O", "filters": [{"id": "pickle"}]}, r"the filters \['pickle'\]"),
    "type": ({"dtype": "|O"}, "voxels are of type .*, not plain numbers"),
    **{
        name: ({"filters": [{"id": name}]}, rf"the filters \['{name}'\]")
        for name in ("json2", "msgpack2", "vlen-utf8", "vlen-bytes", "categorize")
    },
    "no name": ({"compressor": {"level": 3}}, "have the codec None, but only"),
    "structure": ({"dtype": [["r", "|u1"], ["g", "|u1"]]}, "voxels are of type .*, not plain numbers"),
    "dates": ({"dtype": "<M8[ns]"}, "voxels are of type .*, not plain numbers"),
    "text": ({"dtype": "<U4"}, "voxels are of type .*, not plain numbers"),
    "list of numbers": ({"dtype": "(2,3)<i2"}, "voxels are of type .*, not plain numbers"),
}


@pytest.mark.parametrize("name", CODECS_V2)
def test_codecs_of_format_2_are_refused_by_name_and_run_no_code(tmp_path, old_image, name):
    changes, message = CODECS_V2[name]
    edit_json(old_image / "full" / ".zarray", **changes)
    fill_chunks(old_image, pickle.dumps(Payload(tmp_path / "attacked")))
    for read in (read_volume, read_segmentation):
        with pytest.raises(DataError, match=rf"volume-0.ome.zarr/full/.zarray: .*{message}"):
            read(old_image)
    assert not (tmp_path / "attacked").exists()


SHARDS = {"chunk_shape": [4, 4, 4], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
# name: (codecs of zarr.json, text of the error)
CODECS_V3 = {
    "pickle": (
        [{"name": "numcodecs.pickle"}],
        "codec 'numcodecs.pickle', but only blosc, zstd, gzip, zlib, lz4, bz2 are",
    ),
    "pickle after bytes": ([BYTES, {"name": "numcodecs.pickle"}], "codec 'numcodecs.pickle', but only"),
    "text": ([{"name": "vlen-utf8"}, {"name": "zstd"}], "codec 'vlen-utf8', but only"),
    "in shards": (
        [{"name": "sharding_indexed", "configuration": SHARDS | {"codecs": [BYTES, {"name": "numcodecs.pickle"}]}}],
        "codec 'numcodecs.pickle', but only",
    ),
    "shards in shards": (
        [{"name": "sharding_indexed", "configuration": SHARDS | {"codecs": [{"name": "sharding_indexed"}]}}],
        "codec 'sharding_indexed', but only",
    ),
    "index": (
        [
            {
                "name": "sharding_indexed",
                "configuration": SHARDS | {"codecs": [BYTES], "index_codecs": [BYTES, {"name": "gzip"}]},
            }
        ],
        "the index of its shards has the codecs",
    ),
    "two compressors": ([BYTES, {"name": "gzip"}, {"name": "zstd"}], "at most one codec may compress"),
    "no bytes": ([{"name": "zstd"}], r"its codecs are \['zstd'\], but bytes"),
    "no codecs": ([], r"its codecs are \[\], but bytes"),
    "order": ([{"name": "transpose", "configuration": {"order": [0, 0, 1]}}, BYTES], r"the order \(0, 0, 1\)"),
}


@pytest.mark.parametrize("name", CODECS_V3)
def test_codecs_of_format_3_are_refused_by_name(tmp_path, image, name):
    codecs, message = CODECS_V3[name]
    edit_json(image / "full" / "zarr.json", codecs=codecs)
    fill_chunks(image, pickle.dumps(Payload(tmp_path / "attacked")))
    with pytest.raises(DataError, match=rf"volume-0.ome.zarr/full/zarr.json: .*{message}"):
        read_volume(image)
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("where", ["volume-0", "segmentation-0"])
def test_convert_runs_no_code_of_images_and_masks(tmp_path, arrays, capfd, where):
    cases = tmp_path / "cases"
    for number, name in itertools.product(range(2), ("volume", "segmentation")):
        hu, labels = arrays(number)
        write_image(cases / f"{name}-{number}.ome.zarr", hu if name == "volume" else labels, version="0.4")
    attacker = cases / f"{where}.ome.zarr"
    plant_code(attacker, tmp_path / "attacked")
    words = ("--input_dir", cases, "--output_dir", tmp_path / "records", "--resolution", 8, "--workers", 1)
    assert main(["convert", *map(str, words)]) == 1
    message = capfd.readouterr().err
    assert f"{attacker}/full/.zarray: its chunks have the codec 'pickle'" in message
    assert "Traceback" not in message
    assert not (tmp_path / "attacked").exists()


def _bomb(name, size):
    data = bytes(size)
    pack = {
        "blosc": lambda: blosc.compress(data, b"zstd", 9),
        "zstd": lambda: zstd.compress(data, 3),
        "gzip": lambda: gzip.compress(data),
        "zlib": lambda: zlib.compress(data),
        "lz4": lambda: lz4.compress(data),
        "bz2": lambda: bz2.compress(data),
    }
    return pack[name]()


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("size", [4**3 * 2 - 1, 4**3 * 2 + 1, 1 << 22])
def test_chunks_of_another_size_are_refused(old_image, name, size):
    edit_json(old_image / "full" / ".zarray", compressor={"id": name})
    fill_chunks(old_image, _bomb(name, size))
    with pytest.raises(DataError, match=r"0\.0\.0: this chunk is damaged or truncated \(it (unpacks to|ends after) "):
        read_volume(old_image)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_truncated_and_random_chunks_are_refused(old_image, name):
    edit_json(old_image / "full" / ".zarray", compressor={"id": name})
    good = _bomb(name, 4**3 * 2)
    noise = np.random.default_rng(0).bytes(len(good))
    for bad in (b"", good[:3], good[:-1], good[: len(good) // 2], noise, good[: len(good) // 2] + noise):
        fill_chunks(old_image, bad)
        with pytest.raises(DataError, match=r"0\.0\.0: this chunk is damaged or truncated"):
            read_volume(old_image)


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_a_file_of_a_terabyte_is_not_read(old_image, codec):
    edit_json(old_image / "full" / ".zarray", compressor=codec and {"id": codec})
    with open(old_image / "full" / "0.0.0", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match=r"0\.0\.0: has more than .* bytes, the limit for such a file"):
        read_volume(old_image)


# name: (changes of .zarray, text of the error)
SIZES = {
    "2^51 chunks": ({"shape": [1 << 17] * 3, "chunks": [1, 1, 1]}, r"declares the shape \(131072, .*at most 2\^40"),
    "2^36 chunks": (
        {"shape": [1 << 12] * 3, "chunks": [1, 1, 1]},
        r"68719476728 of 68719476736 chunk\(s\) are missing",
    ),
    "2^18 chunks": (
        {"shape": [64] * 3, "chunks": [1, 1, 1]},
        r"262136 of 262144 chunk\(s\) are missing: 0.0.2, 0.0.3, 0.0.4",
    ),
    "2^1000 voxels": ({"shape": [10**100] * 3}, "declares the shape"),
    "chunk 0": ({"chunks": [4, 0, 4]}, r"declares the shape \(5, 6, 7\) and chunks of the shape \(4, 0, 4\), but"),
    "negative chunk": ({"chunks": [4, -4, 4]}, r"chunks of the shape \(4, -4, 4\), but sizes are at least 1"),
    "huge chunk": (
        {"chunks": [1 << 12] * 3},
        r"chunks of the shape \(4096, .* 137438953472 bytes each, but the array has 420",
    ),
    "padded chunk": ({"chunks": [1024, 1024, 512]}, "1073741824 bytes each, but the array has 420 bytes"),
    "fraction": ({"chunks": [4, 4, 4.0]}, "cannot be read as the metadata of a Zarr array: .*Fix"),
    "other rank": ({"chunks": [4, 4]}, r"chunks of the shape \(4, 4\), but sizes are at least 1, one for each axis"),
    "shape 0": ({"shape": [5, 0, 7]}, r"declares the shape \(5, 0, 7\) .*at least 1"),
    "negative shape": ({"shape": [5, -6, 7]}, r"declares the shape \(5, -6, 7\) .*at least 1"),
    "shape of another rank": (
        {"shape": [5, 6], "chunks": [4, 4]},
        r"has the shape \(5, 6\), but its axes are z, y, x",
    ),
    "no shape": ({"shape": None}, "cannot be read as the metadata of a Zarr array: .*Fix"),
    "complex": ({"dtype": "<c8"}, "voxels are of type .*, not plain numbers"),
    "NaN": ({"fill_value": "NaN"}, "its fill_value is 'NaN', but the voxels are int16"),
    "order": ({"order": "Z"}, "'order': 'Z'.*of which one is not supported"),
    "format": ({"zarr_format": 1}, "'zarr_format': 1.*of which one is not supported"),
}


@pytest.mark.parametrize("name", SIZES)
def test_impossible_sizes_are_refused_at_once(old_image, name):
    changes, message = SIZES[name]
    edit_json(old_image / "full" / ".zarray", **changes)
    start = time.monotonic()
    with pytest.raises(DataError, match=message):
        read_volume(old_image)
    assert time.monotonic() - start < FOREVER


def test_a_sparse_image_is_read_with_a_warning(tmp_path, caplog):
    """The work depends on the files that exist: of 2^18 chunks, 512 are stored."""
    path = write_image(tmp_path / "a.ome.zarr", np.full((64, 64, 64), 7, np.int16), chunk=8)
    assert sum(file.is_file() for file in (path / "full" / "c").rglob("*")) == 512
    metadata = json.loads((path / "full" / "zarr.json").read_text())
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [1, 1, 1]
    (path / "full" / "zarr.json").write_text(json.dumps(metadata | {"codecs": [BYTES], "fill_value": -5}))
    fill_chunks(path, np.int16(7).tobytes())
    start = time.monotonic()
    volume = read_volume(path)
    assert time.monotonic() - start < FOREVER
    assert (
        "261632 of 262144 chunk(s) are missing: c/0/0/8, c/0/0/9, c/0/0/10, ...; their voxels are read as -5"
        in caplog.text
    )
    assert (volume.hu[:8, :8, :8] == 7).all()
    assert (volume.hu == 7).sum() == 512


def _nested(file):
    file.write_text("[" * 100_000 + "]" * 100_000)


# name: (file in an image of format 3 or 2, whether it is of format 2)
METADATA = {"group": "zarr.json", "array": "full/zarr.json"}
METADATA_V2 = {"group": ".zgroup", "attributes": ".zattrs", "array": "full/.zarray"}


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_metadata_that_are_no_usable_files(tmp_path, hu, version):
    faults = {
        "nested too deeply": _nested,
        "not a JSON file": lambda file: file.write_text("{"),
        "not a JSON file in UTF-8": lambda file: file.write_bytes(b'{"a": "\xff"}'),
        "occurs twice in an object": lambda file: file.write_text('{"a": 1, "a": 2}'),
        "is a named pipe": lambda file: (file.unlink(), os.mkfifo(file)),
        "is a folder": lambda file: (file.unlink(), file.mkdir()),
        "Too many levels of symbolic links": lambda file: (file.unlink(), file.symlink_to(file.name)),
        "contains .* instead of an object": lambda file: file.write_text("[1]"),
    }
    files = METADATA_V2 if version == "0.4" else METADATA
    cases = [*itertools.product(files, faults.items())]
    cases.append(("array", ("has more than .* bytes", lambda file: os.truncate(file, 1 << 40))))  # it takes a second
    for number, (name, (message, damage)) in enumerate(cases):
        path = write_image(tmp_path / f"{number}.ome.zarr", hu, version=version)
        damage(path / files[name])
        with pytest.raises(DataError, match=rf"{number}.ome.zarr/{files[name]}: .*{message}"):
            read_volume(path)


def _loop(file):
    file.unlink()
    file.symlink_to(file.name)


def _folder_of_links(file):
    """Makes every chunk of the first planes lead to the folder above."""
    folder = file.parent.parent
    for name in range(5):
        (folder / f"{name}").rename(folder / f"kept-{name}") if (folder / f"{name}").exists() else None
        (folder / f"{name}").symlink_to(".")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_loop, "full/c/0/1/0: Too many levels of symbolic links"),
        (_folder_of_links, r"full/c/0/\d: is a link to a folder of chunks"),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "full/c/0/1/0: is a device, not a file"),
    ],
    ids=["loop", "folders", "device"],
)
def test_chunks_that_are_no_files(image, change, message):
    change(image / "full" / "c" / "0" / "1" / "0")
    with pytest.raises(DataError, match=message):
        read_volume(image)


def test_a_chunk_may_be_a_link_to_a_file(tmp_path, image, hu):
    """As in folders that DataLad manages."""
    chunk = image / "full" / "c" / "0" / "1" / "0"
    chunk.rename(tmp_path / "elsewhere")
    chunk.symlink_to(tmp_path / "elsewhere")
    np.testing.assert_array_equal(read_volume(image).hu, hu)


@pytest.mark.parametrize(
    "name",
    ["../other.ome.zarr/full", "full/../../other.ome.zarr/full", "/etc", "", ".", "https://host/full", "a\\b", 5],
)
def test_arrays_outside_of_the_image_are_refused(tmp_path, image, hu, name):
    write_image(tmp_path / "other.ome.zarr", hu)
    edit_attributes(image, lambda all: all["ome"]["multiscales"][0]["datasets"][0].update(path=name))
    message = (
        "its array '5' cannot be opened" if name == 5 else "names the array .*, which is not a path in this folder"
    )
    with pytest.raises(DataError, match=rf"volume-0.ome.zarr: .*{message}"):
        read_volume(image)


def test_links_to_arrays_outside_of_the_image_are_refused(tmp_path, image):
    (image / "full").rename(tmp_path / "full")
    (image / "full").symlink_to(tmp_path / "full")
    with pytest.raises(DataError, match=r"its array 'full' is a link to .*/full, outside of the image"):
        read_volume(image)
    (image / "full").unlink()
    (image / "full").symlink_to("full")
    with pytest.raises(DataError, match=r"its array 'full' cannot be opened \(Too many levels of symbolic links\)"):
        read_volume(image)


def test_the_image_itself_may_be_a_link(tmp_path, image, hu):
    (tmp_path / "volume-1.ome.zarr").symlink_to(image)
    np.testing.assert_array_equal(read_volume(tmp_path / "volume-1.ome.zarr").hu, hu)


def test_archives_are_refused(tmp_path):
    (tmp_path / "a.ome.zarr").write_bytes(b"PK\3\4")
    with pytest.raises(
        DataError,
        match=r"a.ome.zarr: is not a folder, as an OME-Zarr image is. Fix: check the path, or unpack the image",
    ):
        read_volume(tmp_path / "a.ome.zarr")


def test_consolidated_metadata_are_not_read(image, old_image, hu):
    wrong = {"full": {"zarr_format": 3, "node_type": "array", "shape": [1, 1, 1]}}
    edit_json(
        image / "zarr.json", consolidated_metadata={"kind": "inline", "must_understand": False, "metadata": wrong}
    )
    np.testing.assert_array_equal(read_volume(image).hu, hu)


def _message(path):
    """Returns the message of the error of an image, or None if it is read."""
    try:
        read_volume(path)
    except DataError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("version", "file"), [("0.4", ".zattrs"), ("0.4", "full/.zarray"), ("0.5", "zarr.json"), ("0.5", "full/zarr.json")]
)
def test_any_value_in_the_metadata_is_read_or_refused(tmp_path, version, file):
    path = write_image(tmp_path / "a.ome.zarr", np.ones((2, 2, 2), np.int16), version=version, chunk=2)
    affine = np.diag([1.5, 2.0, 3.0, 1.0]).tolist()
    if not file.startswith("full"):
        edit_attributes(path, lambda all: all.update(mtf_imaging={"affine": affine}))
    fields = json.loads((path / file).read_text())
    outcomes = set()
    for changed, what in replacements(fields):
        (path / file).write_text(json.dumps(changed))
        voxel_values.warn_once.cache_clear()
        message = _message(path)
        assert message is None or ("Fix: " in message and len(message) < 1000), (what, message)
        outcomes.add(message is None)
    assert outcomes == {True, False}


def test_a_negative_scale_with_directions_mirrors_the_axis(tmp_path, hu):
    path = write_image(tmp_path / "a.ome.zarr", hu, scale=(1.5, 2.0, -3.0))
    volume = read_volume(path)
    assert volume.geometry.axis_codes == "RAI"
    np.testing.assert_array_equal(volume.hu, hu[..., ::-1])
    np.testing.assert_allclose(volume.geometry.affine[2], [0, 0, -3, 30])


def test_a_negative_scale_without_directions_is_refused(tmp_path, hu):
    path = write_image(tmp_path / "a.ome.zarr", hu, scale=(1.5, 2.0, -3.0), directions=None)
    with pytest.raises(DataError, match=r"its scale \[-3.0, 2.0, 1.5\] mirrors axes, but its metadata does not state"):
        read_volume(path)


def test_a_missing_scale_is_said(tmp_path, hu, caplog):
    path = write_image(tmp_path / "volume-3.ome.zarr", hu, directions=None, unit="micrometer")
    edit_attributes(path, lambda all: all["ome"]["multiscales"][0]["datasets"][0].pop("coordinateTransformations"))
    geometry = read_volume(path).geometry
    np.testing.assert_allclose(geometry.spacing, (1, 1, 1))
    assert "with voxels of 1 x 1 x 1 mm, because its metadata states no size; spacing and all results" in caplog.text
    assert "Fix: give the true size in a spacing_table" in caplog.text
    write_zarr_labels(tmp_path / "segmentation-3.ome.zarr", [np.ones(SHAPE, np.uint8)], geometry)
    caplog.clear()
    read_segmentation(tmp_path / "segmentation-3.ome.zarr")  # states no size, either
    assert "because its metadata states no size" in caplog.text
    edit_attributes(path, lambda all: all["ome"]["multiscales"][0].update(axes=axis_entries("zyx")))
    with pytest.raises(
        DataError, match=r"states the orientation of the axes, but not the voxel size. Fix: add the coord"
    ):
        read_volume(path)


def test_the_table_gives_a_missing_scale(tmp_path, hu, caplog):
    path = write_image(tmp_path / "volume-3.ome.zarr", hu, directions=None)
    edit_attributes(path, lambda all: all["ome"]["multiscales"][0]["datasets"][0].pop("coordinateTransformations"))
    known = SpacingTable({"3": (0.5, 0.6, 2.5)}, tmp_path / "sizes.csv")
    np.testing.assert_allclose(read_volume(path, known).geometry.spacing, (0.5, 0.6, 2.5))
    assert "voxels of 0.5 x 0.6 x 2.5 mm, from " in caplog.text


def test_sizes_that_overflow_are_refused(tmp_path, hu):
    path = write_image(tmp_path / "a.ome.zarr", hu, scale=(1e-200, 1.0, 1.0))
    step = {"type": "scale", "scale": [1, 1, 1e-200]}
    edit_attributes(path, lambda all: all["ome"]["multiscales"][0].update(coordinateTransformations=[step]))
    with pytest.raises(
        DataError, match=r"its coordinate transformations amount to the scale .*, which are not lengths"
    ):
        read_volume(path)


@pytest.mark.parametrize("stored", [99, 10**9])
def test_a_blosc_buffer_has_the_size_that_its_header_states(stored):
    data = bytearray(blosc.compress(np.arange(100, dtype=np.uint8).tobytes(), b"zstd", 5, 1))
    size = len(data)
    np.testing.assert_array_equal(decompress_blosc(bytes(data), 100), np.arange(100))
    with pytest.raises(ValueError, match=f"it has {size + 1} bytes, but its header states {size}"):
        decompress_blosc(bytes(data) + b"x", 100)
    data[12:16] = stored.to_bytes(4, "little")
    with pytest.raises(ValueError, match=f"it has {size} bytes, but its header states {stored}"):
        decompress_blosc(bytes(data), 100)
