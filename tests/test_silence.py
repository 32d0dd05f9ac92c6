"""Without a setting of the user, TensorFlow and mesh_tensorflow print nothing while programs are built and called."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import mtf_imaging as mi
mi.ops, mi.training.prediction
mtf = mi.mtf
def dense(x):
    weights = [mtf.get_variable(x.mesh, name, x.shape, initializer=0.0) for name in "abc"]
    return sum(x * w for w in weights)
program = mi.Program(dense, {"x": "x:4"}, mesh_shape="rows:2", layout="x:rows")
program(x=[0, 1, 2, 3])
mi.Program(dense, {"x": "x:4"})
"""


def _run(program, **environ):
    clean = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", program], env=clean | environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_programs_print_nothing():
    done = _run(_PROGRAM)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.slow
def test_notices_appear_once_and_the_level_of_a_user_counts():
    """The variables have no initializer, of which mesh_tensorflow warns."""
    done = _run(_PROGRAM.replace(", initializer=0.0", ""), TF_CPP_MIN_LOG_LEVEL="0")
    assert done.stderr.count("Using default tf glorot_uniform_initializer") == 1
    assert "oneDNN" in done.stderr or "cpu_feature_guard" in done.stderr


def test_only_log_lines_of_tensorflow_are_hidden():
    """Lines of other programs appear after the import; after an error, all lines do."""
    lines = (
        r"I0000 00:00:1795787005.5 23118 port.cc:153] oneDNN custom operations are on.\n",
        r"2026-01-01 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN\n",
        r"a DeprecationWarning of a module\n",
    )
    program = (
        "import os\nfrom mtf_imaging.files.log_lines import without_log_lines\n"
        f"with without_log_lines():\n    os.write(2, b'{''.join(lines)}')\n"
    )
    assert _run(program).stderr == "a DeprecationWarning of a module\n"
