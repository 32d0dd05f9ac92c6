"""Tests for the errors of single cases."""

import errno
import logging
import os
import traceback

import pytest

from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.case_errors import TRACEBACK, CaseFaults, case_errors


def read_case():
    raise DataError("a.nii: wrong.", ["workers"])


class FakeOpError(Exception):
    """Has the name of TensorFlow's errors in its classes."""


class OpError(Exception):
    pass


class AbortedError(OpError):
    pass


@pytest.mark.parametrize(
    "error", [RecursionError("too deep"), OverflowError("cannot convert float infinity"), KeyError("a"), FakeOpError()]
)
def test_unexpected_errors_name_the_file_the_type_and_the_text(error):
    with pytest.raises(DataError) as caught, case_errors("cases/a.nii.gz"):
        raise error
    assert str(caught.value) == (
        f"cases/a.nii.gz: cannot be used ({type(error).__name__}: {str(error) or repr(error)}). Fix: check this file. "
        "If other programs read it, report this message with the traceback, which the environment variable "
        "MTF_IMAGING_TRACEBACK=1 shows."
    )
    assert caught.value.__cause__ is error


def test_the_traceback_is_shown_on_request(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    with pytest.raises(DataError), case_errors("a.nii"):
        raise KeyError("x")
    assert not caplog.records
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(DataError), case_errors("a.nii"):
        raise KeyError("x")
    assert "a.nii: Traceback (most recent call last)" in caplog.text
    assert "in test_the_traceback_is_shown_on_request" in caplog.text


def test_errors_of_the_system_name_the_path():
    with pytest.raises(DataError, match=r"^out/b: File name too long\. Fix: check the path and its name\."):  # noqa: SIM117
        with case_errors("a.nii"):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), "out/b")
    with pytest.raises(DataError, match=r"^a\.nii: not enough memory"), case_errors("a.nii"):
        raise MemoryError


@pytest.mark.parametrize(
    "error",
    [
        DataError("a.nii: damaged."),
        ConfigError("layout"),
        OSError(errno.ENOSPC, "No space left on device"),
        AbortedError("a peer is lost"),
        KeyboardInterrupt(),
        SystemExit(1),
    ],
)
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as caught, case_errors("a.nii"):
        raise error
    assert caught.value is error


def test_faults_are_reported_together_in_the_order_of_the_cases():
    faults = CaseFaults()
    faults.check(["1", "2"])
    for key in ("3", "1"):
        with faults.collect(key, f"{key}.nii"):
            raise ValueError(f"error {key}")
    with faults.collect("2", "2.nii"):
        pass
    with pytest.raises(DataError) as caught:
        faults.check(["1", "2", "3"], "photos")
    head, first, second = str(caught.value).splitlines()
    assert head == "2 of 3 photos cannot be used:"
    assert first.startswith("  1.nii: cannot be used (ValueError: error 1).")
    assert second.startswith("  3.nii: cannot be used (ValueError: error 3).")
    assert list(faults) == ["3", "1"]


def test_one_fault_is_raised_as_it_is_with_its_settings():
    faults = CaseFaults()
    with faults.collect("a", "a.nii"):
        read_case()
    with pytest.raises(DataError, match=r"^a\.nii: wrong\.$") as caught:
        faults.check(["a", "b"])
    assert caught.value.settings == ("workers",)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "read_case" not in frames  # its frame would keep the arrays of the case in memory
    assert caught.value.__cause__ is None


def test_the_first_fault_ends_the_work_if_other_processes_wait():
    with pytest.raises(DataError, match=r"a\.nii: cannot be used"), CaseFaults(at_once=True).collect("a", "a.nii"):
        raise ValueError("x")
