"""Processes in which no command can run are refused by name."""

import os
import subprocess
import sys

import pytest

from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.engine.meshes import devices

CALL = "import sys; from mtf_imaging.cli.main import main; sys.exit(main(['help']))"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_without_docstrings_no_command_runs(level):
    environment = {**os.environ, "PYTHONOPTIMIZE": str(level)}
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if level == 2 else 0)
    assert ("Fix: set PYTHONOPTIMIZE to 1, or unset it." in done.stderr) == (level == 2)
    assert "Traceback" not in done.stderr


def test_a_working_folder_that_was_deleted_is_named(tmp_path):
    call = f"import os; os.chdir({str(tmp_path)!r}); os.rmdir({str(tmp_path)!r}); {CALL}"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the working folder: No such file or directory. Fix: change to a folder that exists." in done.stderr


def test_gpu_memory_is_allocated_on_demand(monkeypatch):
    calls = []
    monkeypatch.setattr(devices, "grow_memory", lambda: calls.append("grow"))
    import_tensorflow()
    assert calls == ["grow"]
