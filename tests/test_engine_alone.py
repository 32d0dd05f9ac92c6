"""The engine needs TensorFlow, mesh_tensorflow and NumPy alone: its tests pass where nothing else is installed."""

import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.selection.imports import ROOT
from tests.test_packaging import build_wheel, call, sources  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

PACKAGES = ("tensorflow", "mesh-tensorflow", "numpy", "pytest", "hypothesis")
OTHERS = ("nibabel", "zarr", "scipy", "matplotlib", "pycocotools", "safetensors")  # some that the whole package needs
FILES = (*("conftest.py", "importing.py", "poison.py", "storage.py", "waiting.py"), "selection", "engine")
# Some files of each folder. pytest imports all others, too.
SOME = "test_layout or test_halo or test_graph or test_layers or test_inputs or test_processes or test_small_faults"

# Prints the packages of `OTHERS` that exist, and those that a program imports in addition to mesh_tensorflow.
LOOK = f"""
import importlib.util, sys
import mtf_imaging.engine.compat
print([name for name in {OTHERS} if importlib.util.find_spec(name)])
before = {{name.partition(".")[0] for name in sys.modules}}
import mtf_imaging as mi
mi.Program(lambda x: mi.ops.softmax(x, x.shape[-1]), {{"x": "x:4"}})(x=[1, 2, 3, 4])
print({{name.partition(".")[0] for name in sys.modules}} - before - {{*sys.stdlib_module_names}})
"""


def required(names):
    """Returns the installed distributions with some names, and those that they need."""
    found, pending = {}, [*names]
    while pending:
        name = canonicalize_name(pending.pop())
        if name not in found:
            found[name] = metadata.distribution(name)
            needed = map(Requirement, found[name].requires or [])
            pending += [each.name for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]
    return [*found.values()]


def make_environment(folder, wheel):
    """Creates a virtual environment with `PACKAGES` and what they need, and with the package without what it needs.

    The packages are links to those of this environment.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    for distribution in required(PACKAGES):
        for name in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (site / name).exists():  # several distributions may share a folder
                (site / name).symlink_to(distribution.locate_file(name))
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", site)
    call(*pip, wheel, cwd=folder)
    return python


def test_the_tests_of_the_engine_pass_where_nothing_else_is_installed(sources, tmp_path):  # noqa: F811
    for name in ("wheel", "environment", "tests"):
        (tmp_path / name).mkdir()
    python = make_environment(tmp_path / "environment", build_wheel(sources, tmp_path / "wheel"))
    assert call(python, "-c", LOOK, cwd=tmp_path).splitlines() == ["[]", "set()"]
    for name in FILES:
        copy = shutil.copytree if (ROOT / "tests" / name).is_dir() else shutil.copy
        copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "pytest.ini", tmp_path)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", SOME, "tests/engine")
    done = subprocess.run([python, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) > 400
