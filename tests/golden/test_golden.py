"""Every file that the jobs write has the content that `digests.json` states; see `python -m tests.golden`."""

import functools
import tempfile
from pathlib import Path

import pytest

from tests.golden.jobs import KINDS
from tests.golden.runs import PROCESSES, differences, reference, written

pytestmark = pytest.mark.slow  # the only test of all files together, for restructurings that should change none


@functools.cache
def found(kind):
    with tempfile.TemporaryDirectory() as folder:
        return written(kind, Path(folder))


@pytest.mark.parametrize("processes", PROCESSES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_jobs_write_the_same_files_as_before(kind, processes):
    def part(digests):
        return {path: digest for path, digest in digests.items() if path.startswith(f"{kind}/{processes}/")}

    assert len(part(found(kind))) > 30
    assert [*differences(part(reference(kind)), part(found(kind)))] == []
