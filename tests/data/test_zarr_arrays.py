"""Zarr arrays that Zarr itself writes are read equally without Zarr, in every layout and codec that is decoded."""

import json

import google_crc32c
import numpy as np
import pytest
import zarr
from numcodecs import BZ2, LZ4, Blosc, GZip, Zlib, Zstd
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

from mtf_imaging.data.formats.ome_zarr.array_layout import parse_layout
from mtf_imaging.data.formats.ome_zarr.stored_array import StoredArray
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import Fault

SHAPE, CHUNK = (7, 6, 5), (4, 3, 5)
REGIONS = [
    tuple(map(slice, (0, 0, 0), SHAPE)),
    (slice(1, 6), slice(2, 3), slice(0, 5)),
    (slice(4, 7), slice(3, 6), slice(4, 5)),
]
DTYPES = ["|b1", "|u1", "<i2", ">i2", "<u4", ">f4", "<f8", "<i8", "<f2"]


def numbers(dtype="<i2"):
    values = np.random.default_rng(0).integers(-100, 100, SHAPE)
    return (values > 0 if dtype == "|b1" else np.abs(values) if "u" in dtype else values).astype(dtype)


def stored_array(folder):
    (file,) = (folder / name for name in ("zarr.json", ".zarray") if (folder / name).exists())
    return StoredArray(folder, parse_layout(json.loads(file.read_text())))


def check_equals(folder, expected):
    """Checks that each region has the expected values."""
    array = stored_array(folder)
    for region in REGIONS:
        found = array.read(region)
        np.testing.assert_array_equal(found, expected[region])
        assert found.dtype == expected.dtype.newbyteorder("=")


COMPRESSORS_V2 = {
    "none": None,
    "blosc": Blosc("lz4", 5, Blosc.SHUFFLE),
    "blosc zstd": Blosc("zstd", 1, Blosc.BITSHUFFLE),
    "zstd": Zstd(),
    "gzip": GZip(),
    "zlib": Zlib(),
    "lz4": LZ4(),
    "bz2": BZ2(),
}


@pytest.mark.parametrize("name", COMPRESSORS_V2)
@pytest.mark.parametrize(("order", "separator"), [("C", "."), ("F", "/")])
def test_format_2(tmp_path, name, order, separator):
    array = zarr.create_array(
        tmp_path / "a",
        shape=SHAPE,
        chunks=CHUNK,
        dtype="<i2",
        zarr_format=2,
        compressors=COMPRESSORS_V2[name],
        filters=None,
        order=order,
        chunk_key_encoding={"name": "v2", "separator": separator},
        fill_value=0,
    )
    array[...] = numbers()
    check_equals(tmp_path / "a", numbers())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", [2, 3])
def test_types(tmp_path, dtype, version):
    array = zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=CHUNK, dtype=dtype, zarr_format=version)
    array[...] = numbers(dtype)
    check_equals(tmp_path / "a", numbers(dtype))


# name: (serializer, filters, compressors)
CODECS_V3 = {
    "none": ([], BytesCodec(), []),
    "big endian": ([], BytesCodec(endian="big"), []),
    "blosc": ([], BytesCodec(), [BloscCodec(typesize=2, cname="lz4")]),
    "gzip": ([], BytesCodec(), [GzipCodec()]),
    "zstd": ([], BytesCodec(), [ZstdCodec()]),
    "checksum": ([], BytesCodec(), [Crc32cCodec()]),
    "checksum of zstd": ([], BytesCodec(), [ZstdCodec(), Crc32cCodec()]),
    "zstd with checksums": ([], BytesCodec(), [Crc32cCodec(), ZstdCodec(), Crc32cCodec()]),
    "transpose": ([TransposeCodec(order=(2, 0, 1))], BytesCodec(), [ZstdCodec()]),
}


@pytest.mark.parametrize("name", CODECS_V3)
@pytest.mark.parametrize("shard", [None, (8, 6, 5), (4, 6, 10)])
def test_format_3(tmp_path, name, shard):
    filters, serializer, compressors = CODECS_V3[name]
    array = zarr.create_array(
        tmp_path / "a",
        shape=SHAPE,
        chunks=CHUNK,
        shards=shard,
        dtype="<i2",
        filters=filters,
        serializer=serializer,
        compressors=compressors,
    )
    array[...] = numbers()
    check_equals(tmp_path / "a", numbers())


@pytest.mark.parametrize(("name", "separator"), [("default", "/"), ("default", "."), ("v2", "/"), ("v2", ".")])
def test_names_of_chunks(tmp_path, name, separator):
    encoding = {"name": name, "separator": separator}
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=CHUNK, dtype="<i2", chunk_key_encoding=encoding, fill_value=-7
    )
    array[:4, :, :] = numbers()[:4]
    expected = np.full_like(numbers(), -7)
    expected[:4] = numbers()[:4]
    check_equals(tmp_path / "a", expected)
    stored = stored_array(tmp_path / "a")
    assert (stored.num_files, stored.num_missing) == (4, 2)
    prefix = "c" + separator if name == "default" else ""
    assert stored.missing_keys(5) == [f"{prefix}1{separator}{n}{separator}0" for n in (0, 1)]


@pytest.mark.parametrize("location", ["start", "end"])
def test_index_of_shards(tmp_path, location):
    sharding = ShardingCodec(chunk_shape=CHUNK, codecs=[BytesCodec(), ZstdCodec()], index_location=location)
    array = zarr.create_array(
        tmp_path / "a", shape=SHAPE, chunks=(8, 6, 5), dtype="<i2", serializer=sharding, compressors=None, fill_value=3
    )
    expected = np.full_like(numbers(), 3)
    array[:2] = expected[:2] = numbers()[:2]  # the other chunks of the shard are missing
    check_equals(tmp_path / "a", expected)


# (version, type, fill value in the metadata, value)
FILLS = [
    (2, "<f4", "NaN", np.nan),
    (2, "<f4", "-Infinity", -np.inf),
    (2, "<i2", None, 0),
    (2, "<i2", -5.0, -5),
    (3, "float32", "Infinity", np.inf),
    (3, "float32", "0x3fc00000", 1.5),
    (3, "float64", 1e3, 1000),
    (3, "uint8", 255, 255),
    (3, "bool", True, True),
]


def edit(folder, version, **changes):
    """Changes entries of the metadata of an array."""
    file = folder / (".zarray" if version == 2 else "zarr.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def create(folder, version=3, **options):
    """Creates an array without chunks."""
    options = {"shape": SHAPE, "chunks": CHUNK, "dtype": "<i2"} | options
    zarr.create_array(folder, zarr_format=version, **options)
    return folder


@pytest.mark.parametrize(("version", "dtype", "stated", "value"), FILLS)
def test_fill_values(tmp_path, version, dtype, stated, value):
    folder = create(tmp_path / "a", version, dtype=np.dtype(dtype))
    edit(folder, version, fill_value=stated)
    check_equals(folder, np.full(SHAPE, value, np.dtype(dtype)))


@pytest.mark.parametrize(
    ("dtype", "stated"),
    [
        ("int16", "NaN"),
        ("int16", 0.5),
        ("uint8", 256),
        ("uint8", -1),
        ("int16", float("nan")),
        ("int16", True),
        ("float32", "0x00"),
        ("float32", [1]),
        ("float32", 10**400),
        ("bool", 2),
    ],
)
def test_other_fill_values_are_refused(tmp_path, dtype, stated):
    folder = create(tmp_path / "a", dtype=dtype)
    edit(folder, 3, fill_value=stated)
    with pytest.raises(Fault, match=rf"its fill_value is .*, but the voxels are {dtype}"):
        stored_array(folder)


def test_zstd_frames_without_a_size(tmp_path):
    """Programs that compress a stream do not state the size."""
    folder = create(tmp_path / "a", shape=(2, 2, 2), chunks=(2, 2, 2), compressors=ZstdCodec())
    values = np.arange(8, dtype="<i2").reshape(2, 2, 2)
    # magic number, descriptor without a size, window of 1 KiB, one last block of raw bytes
    frame = b"\x28\xb5\x2f\xfd\0\0" + (16 << 3 | 1).to_bytes(3, "little") + values.tobytes()
    file = folder / "c/0/0/0"
    file.parent.mkdir(parents=True)
    whole = tuple(map(slice, (0, 0, 0), (2, 2, 2)))
    file.write_bytes(frame)
    np.testing.assert_array_equal(stored_array(folder).read(whole), values)
    for wrong in (frame[:-1], frame[:6] + (15 << 3 | 1).to_bytes(3, "little") + values.tobytes()[:15]):
        file.write_bytes(wrong)
        with pytest.raises(DataError, match=r"a/c/0/0/0: this chunk is damaged or truncated \(.*\)\. Fix: fetch"):
            stored_array(folder).read(whole)


def test_gzip_chunks_of_several_members(tmp_path):
    folder = create(tmp_path / "a", shape=(1, 1, 6), chunks=(1, 1, 6), compressors=GzipCodec())
    values = np.arange(6, dtype="<i2")
    file = folder / "c/0/0/0"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(GZip().encode(part) for part in (values[:2], values[2:])))
    found = stored_array(folder).read((slice(0, 1), slice(0, 1), slice(0, 6)))
    np.testing.assert_array_equal(found[0, 0], values)


def test_checksums_are_those_of_the_castagnoli_polynomial():
    assert google_crc32c.value(b"123456789") == 0xE3069283
