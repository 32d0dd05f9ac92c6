"""Closed standard streams, and streams that cannot encode a name."""

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
from mtf_imaging.cli.runtime import streams
streams.prepare()
assert open(sys.argv[1], "w").fileno() > 2
print("Gr\\u00f6\\u00dfe", "\\udcfc")
print("Gr\\u00f6\\u00dfe", file=sys.stderr)
assert sys.stdin.read() == ""
os.write(2, b"a line of C++")
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path, closed):
    words = ["bash", "-c", f'"$0" "$@" {closed}', sys.executable, "-c", CODE, str(tmp_path / "results")]
    assert subprocess.run(words, stdin=subprocess.DEVNULL).returncode == 0
    assert (tmp_path / "results").read_bytes() == b""


def test_names_that_a_stream_cannot_encode_are_escaped(tmp_path):
    words = [sys.executable, "-c", CODE, str(tmp_path / "results")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    assert result.stdout == b"Gr\\xf6\\xdfe \\udcfc\n"
    assert result.stderr == b"Gr\\xf6\\xdfe\na line of C++"
