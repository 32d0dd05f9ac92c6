"""Pictures need no backend of matplotlib, and leave the one of a notebook as it is."""

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
from mtf_imaging.files.figures import Figure, FigureCanvasAgg
FigureCanvasAgg(Figure(figsize=(1, 1))).print_png(sys.argv[1])
assert os.environ["MPLBACKEND"] == sys.argv[2]
assert "matplotlib.pyplot" not in sys.modules
import matplotlib
print(matplotlib.get_backend(auto_select=False) if sys.argv[2] == "svg" else "")
"""


@pytest.mark.parametrize("backend", ["module://ipympl.backend_nbagg", "no_such_backend", "svg"])
def test_a_picture_is_drawn_whatever_backend_the_environment_names(tmp_path, backend):
    words = [sys.executable, "-c", CODE, tmp_path / "a.png", backend]
    result = subprocess.run(words, env={**os.environ, "MPLBACKEND": backend}, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert result.stdout.strip() == ("svg" if backend == "svg" else "")
