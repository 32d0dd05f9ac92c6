"""Limits of the address space under which the libraries would hang or end the process."""

import subprocess
import sys

import pytest

COMMANDS = {
    "NumPy and SciPy": ["phantom", "--output_dir=cases", "--num_cases=1"],
    "TensorFlow": ["explain", "--gin_file=unet3d_demo"],
}
CODE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20, resource.RLIM_INFINITY))
from mtf_imaging.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce the limit")
@pytest.mark.parametrize(("name", "limit"), [("NumPy and SciPy", 500), ("TensorFlow", 1500)])
def test_a_low_limit_is_refused_with_the_fix(name, limit, tmp_path):
    words = ["taskset", "-c", "0", sys.executable, "-c", CODE, str(limit), *COMMANDS[name]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"mtf-imaging: out of memory: ulimit -v limits this process to {limit:,} MiB of address space, but {name} on "
        "1 core needs about "
    )
    assert "Fix: raise the limit with ulimit -v " in done.stderr
    assert not (tmp_path / "cases").exists()
