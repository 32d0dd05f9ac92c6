"""Commands in a working folder of a stranger, whose files have the names of modules that libraries look for."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.selection.imports import ROOT

# The script that pip installs for the console script. Python puts only its folder into `sys.path`.
SCRIPT = """
import sys
from mtf_imaging.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
"""
# Modules of other systems and optional modules of libraries, and modules that every process imports.
NAMES = (
    *(
        "_winapi",
        "msvcrt",
        "nt",
        "org",
        "winreg",
        "_winreg",
        "IPython",
        "pandas",
        "cairocffi",
        "brotli",
        "chardet",
        "dl",
    ),
    *("indexed_gzip", "jax", "objgraph", "openjpeg", "pylibjpeg", "rle", "simplejson", "socks", "tblib", "envwrap"),
    *("multiprocessing", "pickle", "signal", "struct", "tempfile", "runpy", "typing", "numpy", "tensorflow", "gin"),
)
WORKERS = """
from mtf_imaging.files.workers import in_parallel

if __name__ == "__main__":
    assert dict(in_parallel(len, ["a", "bc"], 2)) == {"a": 1, "bc": 2}
"""


@pytest.fixture
def start(tmp_path):
    """Returns a function that runs a script in the stranger's folder, and checks that none of its files has run."""
    folder, script = tmp_path / "stranger", tmp_path / "bin/mtf-imaging"
    folder.mkdir()
    script.parent.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}

    def run(text, *words):
        script.write_text(text)
        environment["PYTHONPATH"] = str(ROOT)
        subprocess.run([sys.executable, script, *words], cwd=folder, env=environment, check=True)
        assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()

    return run


def test_worker_processes_run_no_file_of_the_working_folder(start):
    start(WORKERS)


@pytest.mark.slow  # they start TensorFlow several times
def test_commands_run_no_file_of_the_working_folder_and_the_run(start, tmp_path):
    """Training and evaluation draw with matplotlib, which looks for winreg; convert and bench start processes."""
    start(SCRIPT, "phantom", "--output_dir=../cases", "--num_cases=2")
    start(SCRIPT, "convert", "--input_dir=../cases", "--output_dir=../records", "--resolution=16", "--workers=2")
    job = "--gin_file=unet3d_demo", "--resolution=16", "--noimport_modules"
    start(SCRIPT, "train", *job, "--data_dir=../records", "--eval_dir=../records", "--model_dir=run", "--num_steps=2")
    for path in (tmp_path / "stranger").glob("*.py"):
        shutil.copy(path, tmp_path / "stranger/run")
    start(SCRIPT, "evaluate", "--model_dir=run", "--input_dir=../cases", "--output_dir=../scores", "--noimport_modules")
    start(SCRIPT, "bench", *job, "--setup=single", "--steps=1")
    start(SCRIPT, "launch", "--num_processes=1", "--", "explain", *job)
