"""Records of strangers: their digests match, but their contents are not those of a record."""

import copy
import json
import os
import pickle
import re

import numpy as np
import pytest
from numcodecs import blosc

from mtf_imaging.data.records.chunks import digest
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import Manifest, Source, read_manifest, write_manifest
from mtf_imaging.data.records.ome_metadata import metadata_digest
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from tests.data.json_values import replacements
from tests.data.test_stored_records import CHUNK, make
from tests.data.zarr_image import Payload
from tests.records import in_memory, read_record, write_record

CHUNK_1 = "0/c/0/0/0"


@pytest.fixture
def record(tmp_path):
    write_record(tmp_path / "case-2.ome.zarr", make(), CHUNK)
    return tmp_path / "case-2.ome.zarr"


def sign(record, fields=None, **digests):
    """Writes the metadata of a record with matching digests.

    Args:
      record: the folder.
      fields: the metadata; None for the present ones.
      **digests: other digests of files.
    """
    fields = json.loads((record / "zarr.json").read_text()) if fields is None else copy.deepcopy(fields)
    ours = fields["attributes"]["mtf_imaging"]
    ours["digests"] |= digests
    ours["digest"] = metadata_digest(fields)
    (record / "zarr.json").write_text(json.dumps(fields))


def replace_array(record, change):
    """Changes the metadata of the image with a function, and all digests."""
    file = record / "0" / "zarr.json"
    fields = json.loads(file.read_text())
    change(fields)
    file.write_text(json.dumps(fields))
    sign(record, **{"0/zarr.json": digest(file.read_bytes())})


def replace_chunk(record, data):
    """Replaces a chunk, and all digests."""
    (record / CHUNK_1).write_bytes(data)
    replace_array(
        record, lambda fields: fields["attributes"]["mtf_imaging"]["digests"].update({"c/0/0/0": digest(data)})
    )


def read(record):
    stored = StoredRecord(record)
    stored.check()
    return in_memory(stored)


def message(call, *args):
    """Returns the message of a DataError, or None."""
    try:
        call(*args)
    except DataError as error:
        return str(error)
    return None


def test_the_digests_of_these_tests_match(record):
    data = (record / CHUNK_1).read_bytes()
    replace_chunk(record, data)
    assert message(read, record) is None


def test_a_file_that_is_larger_than_any_chunk_is_not_read(record):
    replace_chunk(record, bytes(1_000_000))
    assert re.match(
        rf"{re.escape(f'{record}/{CHUNK_1}')}: has more than \d{{5}} bytes, the limit", message(read, record)
    )


def test_codecs_that_run_code_are_refused(tmp_path, record):
    replace_chunk(record, pickle.dumps(Payload(tmp_path / "attacked")))
    replace_array(record, lambda fields: fields.update(codecs=[{"name": "numcodecs.pickle"}]))
    assert "not a record of this program, or its zarr.json is damaged" in message(read, record)
    assert not (tmp_path / "attacked").exists()


def test_training_runs_no_code_of_records(tmp_path, store, arrays):
    for number in range(2):
        hu, labels = arrays(number)
        store(tmp_path / f"cases/volume-{number}.nii", hu)
        store(tmp_path / f"cases/segmentation-{number}.nii", labels)
    out = tmp_path / "records"
    convert(tmp_path / "cases", out, 4, progress=False)
    attacker = out / "case-1.ome.zarr"
    replace_chunk(attacker, pickle.dumps(Payload(tmp_path / "attacked")))
    replace_array(attacker, lambda fields: fields.update(codecs=[{"name": "numcodecs.pickle"}]))
    with pytest.raises(DataError, match=r"case-1\.ome\.zarr: not a record of this program"):
        next(Records().training_batches(out, 2, seed=0))
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("size", [1, 4 * 4 * 5 * 2 + 1, 1 << 26])
def test_chunks_that_unpack_to_another_size_are_refused(record, size):
    replace_chunk(record, blosc.compress(bytes(size), b"zstd", 9))
    expected = f"{record}/{CHUNK_1}: this chunk of the record of case '2' is damaged (it unpacks to {size} bytes"
    assert message(read, record).startswith(expected)


def test_truncated_chunks_are_refused(record):
    replace_chunk(record, (record / CHUNK_1).read_bytes()[:-3])
    assert "is damaged (it has" in message(read, record)


def test_files_that_never_end_are_refused(record):
    (record / CHUNK_1).unlink()
    os.mkfifo(record / CHUNK_1)
    assert f"{CHUNK_1}: is a named pipe, not a file" in message(read, record)
    (record / CHUNK_1).unlink()
    (record / CHUNK_1).touch()
    os.truncate(record / CHUNK_1, 1 << 40)
    assert f"{CHUNK_1}: has more than" in message(read_record, record)
    (record / "zarr.json").unlink()
    os.mkfifo(record / "zarr.json")
    assert "this record has no zarr.json" in message(read, record)


def test_metadata_that_are_nested_too_deeply_are_refused(record):
    (record / "zarr.json").write_text("[" * 100_000 + "]" * 100_000)
    assert "zarr.json: not a JSON file (it is nested too deeply). Fix: run convert" in message(read, record)


@pytest.mark.parametrize("name", ["../case-3.ome.zarr/zarr.json", "/dev/zero", "0/../../x"])
def test_files_outside_of_the_record_are_not_read(record, name):
    sign(record, **{name: "0"})
    assert f"the record of case '2' names '{name}', outside of it" in message(read, record)


def test_any_value_in_the_metadata_of_a_record_is_read_or_refused(record):
    original = json.loads((record / "zarr.json").read_text())
    outcomes = set()
    for fields, what in replacements({"attributes": {"mtf_imaging": original["attributes"]["mtf_imaging"]}}):
        if isinstance(ours := fields["attributes"], dict) and isinstance(ours.get("mtf_imaging"), dict):
            ours["mtf_imaging"]["digest"] = metadata_digest(original | fields)
        (record / "zarr.json").write_text(json.dumps(original | fields))
        text = message(StoredRecord, record)
        assert text is None or "Fix: " in text, what
        outcomes.add(text is None)
    assert outcomes == {True, False}


def test_any_value_in_the_metadata_of_an_array_is_read_or_refused(record):
    file = record / "0" / "zarr.json"
    original = json.loads(file.read_text())
    del original["attributes"]["mtf_imaging"]["digests"]["c/0/0/0"]  # one digest stands for all
    outcomes = set()
    for fields, what in replacements({name: value for name, value in original.items() if name != "attributes"}):
        file.write_text(json.dumps({"attributes": original["attributes"]} | fields))
        sign(record, **{"0/zarr.json": digest(file.read_bytes())})
        text = message(StoredRecord, record)
        assert text is None or "Fix: " in text, what
        outcomes.add(text is None)
    assert outcomes == {True, False}


@pytest.fixture
def manifest(tmp_path):
    affine = tuple(map(tuple, np.eye(4).tolist()))
    files = ("volume-2_0.nii", "segmentation-2.nii", (5, 6, 7), (1.0, 1.0, 1.0), affine, "RAS")
    source = Source("digest", *files, channels=("volume-2_0.nii", "volume-2_1.nii"))
    write_manifest(tmp_path, Manifest(Sampling((4, 4, 4), None), {"2": source}))
    return tmp_path / "dataset.json"


def test_any_value_in_the_manifest_is_read_or_refused(manifest):
    outcomes = set()
    for fields, what in replacements(json.loads(manifest.read_text())):
        manifest.write_text(json.dumps(fields))
        text = message(read_manifest, manifest.parent)
        assert text is None or "Fix: " in text, what
        outcomes.add(text is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("entry", "value", "text"),
    [
        ("case", "../../x", "the case '../../x' has a name with a slash"),
        ("case", "/etc/x", "the case '/etc/x' has a name with a slash"),
        ("volume", 3, "case '2' was made from 3, which is not the name of a file"),
        ("channels", ["a.nii", None], "case '2' was made from None, which is not the name of a file"),
        ("shape", [5, 0, 7], "case '2' has sizes that are not positive numbers"),
    ],
)
def test_names_that_lead_out_of_the_folder_are_refused(manifest, entry, value, text):
    fields = json.loads(manifest.read_text())
    fields["cases"][0][entry] = value
    manifest.write_text(json.dumps(fields))
    assert f"{manifest}: not a manifest of records" in message(read_manifest, manifest.parent)
    assert text in message(read_manifest, manifest.parent)


def test_a_manifest_that_is_nested_too_deeply_is_refused(manifest):
    manifest.write_text("[" * 100_000)
    assert "dataset.json: not a JSON file (it is nested too deeply)" in message(read_manifest, manifest.parent)


def test_a_case_that_is_listed_twice_is_refused(manifest):
    fields = json.loads(manifest.read_text())
    fields["cases"] *= 2
    manifest.write_text(json.dumps(fields))
    assert "a case is listed twice" in message(read_manifest, manifest.parent)
