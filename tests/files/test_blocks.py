"""Large arrays in blocks of a file equal arrays in memory."""

import os

import numpy as np
import pytest

from mtf_imaging.errors import ConfigError, OutOfMemoryError
from mtf_imaging.files import blocks
from mtf_imaging.files.scratch import file_array, is_own_file

SHAPE = (9, 4, 7, 2)
REGIONS = [
    (slice(0, 9), slice(0, 4), slice(0, 7)),
    (slice(2, 7), slice(1, 4), slice(3, 4), slice(1, 2)),
    (slice(3, 3), slice(0, 4), slice(0, 7)),
    (slice(5, 9),),
]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(blocks, "IN_MEMORY", 0)
    monkeypatch.setattr(blocks, "_SIDE", 3)


def test_regions_of_blocks_are_those_of_an_array(small):
    values = np.random.default_rng(0).random(SHAPE)
    array, found = np.zeros(SHAPE), blocks.working_array(SHAPE, np.float64)
    assert isinstance(found, blocks.Blocks)
    np.testing.assert_array_equal(found, array)
    for region in REGIONS:
        array[region], found[region] = values[region], values[region]
        for read in REGIONS:
            np.testing.assert_array_equal(found[read], array[read])
    whole = np.asarray(found)
    assert whole.flags.c_contiguous
    assert whole.flags.writeable
    np.testing.assert_array_equal(whole, array)


def test_rows_are_copied_between_blocks_and_arrays(small):
    source, target = np.random.default_rng(0).random(SHAPE), blocks.working_array(SHAPE, np.float64)
    blocks.copy_rows(target, slice(1, 8), source, 2)
    np.testing.assert_array_equal(target[1:8,], source[2:9])
    assert not target[slice(0, 1),].any()


def test_small_arrays_stay_in_memory():
    assert isinstance(blocks.working_array(SHAPE, np.float32), np.ndarray)


def test_files_have_no_name(tmp_path):
    array = file_array((1000, 1000), np.uint8, str(tmp_path))
    array[:] = 7
    assert os.listdir(tmp_path) == []


def test_own_files_are_known_from_other_arrays(tmp_path, small):
    own = np.asarray(blocks.working_array(SHAPE, np.float32))[np.newaxis]
    other = np.memmap(tmp_path / "other", np.uint8, "w+", shape=(8,))
    assert is_own_file(own)
    assert not is_own_file(own[..., :1])
    assert not is_own_file(own.reshape(-1)[1:])
    assert not is_own_file(other)
    assert not is_own_file(np.zeros(3)[1:])


def test_a_folder_that_cannot_hold_an_array_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"TMPDIR '.*none' cannot be written: .* Fix: choose another folder"):
        file_array((8,), np.uint8, str(tmp_path / "none"))
    with pytest.raises(OutOfMemoryError, match=r"needs 1,152,921,504,606,846,976 bytes, but TMPDIR .* Fix: choose a"):
        file_array((1 << 60,), np.uint8, str(tmp_path))
