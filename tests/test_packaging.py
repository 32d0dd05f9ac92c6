"""The wheel, the source archive and an editable installation all contain the same files."""

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mtf_imaging
from tests import pages, release

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FOLDERS = ("gin", "layouts", "models", "mtf_imaging")
FILES = (
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    "setup.py",
)

# Prints the visible files and modules of an installation; runs in an empty folder.
LOOK = """
import importlib.util, json, os
import gin, mtf_imaging, mtf_imaging.models
from mtf_imaging.cli.config import resources
modules = []
for folder, _, files in os.walk(mtf_imaging.models.__path__[0]):
    modules += [name for name in files if name.endswith(".py")]
print(json.dumps({
    "files": sorted(resources.shipped_files()),
    "models": sorted(modules),
    "gin-config": hasattr(gin, "configurable"),
    "in the way": [name for name in ("models", "layouts") if importlib.util.find_spec(name)],
    "version": mtf_imaging.__version__,
}))
"""


def call(*command, cwd):
    """Runs a command without the environment variables of the tests; returns its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TF_"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Copies the sources, because a build leaves folders behind."""
    copy = tmp_path_factory.mktemp("sources")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    return copy


def build_wheel(source, out):
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    call(*pip, "--wheel-dir", out, source, cwd=out)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory):
    return build_wheel(sources, tmp_path_factory.mktemp("wheel"))


def make_environment(folder, *install):
    """Creates a virtual environment with the packages of this one, except mtf_imaging, and installs more packages."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    site_packages = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    (Path(site_packages) / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    call(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *install, cwd=folder)
    return folder / "bin"


def test_the_wheel_contains_only_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"mtf_imaging", "mtf_imaging-0.1.0.dist-info"}
    shipped = {
        f"mtf_imaging/{path.relative_to(ROOT)}" for path in (*ROOT.glob("gin/*.gin"), *ROOT.glob("layouts/*.gin"))
    }
    assert shipped == {name for name in names if name.endswith(".gin")}
    folder = ROOT / "mtf_imaging"
    page = [path for pattern in ("*.html", "*.css", "*.js") for path in folder.rglob(pattern)]
    assert {"shell.html", "report.html", "report_any.html"} <= {path.name for path in page}
    assert {str(path.relative_to(ROOT)) for path in page} == {
        name for name in names if name.endswith((".html", ".css", ".js"))
    }
    modules = {f"mtf_imaging/{path.relative_to(ROOT)}" for path in (ROOT / "models").rglob("*.py")}
    modules |= {str(path.relative_to(ROOT)) for path in (ROOT / "mtf_imaging").rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}
    assert not [name for name in names if name.startswith("mtf_imaging/gin/__init__")]
    assert "mtf_imaging/py.typed" in names


def test_the_files_of_a_release(sources, wheel, tmp_path):
    """`make dist` builds the wheel from the source archive, and twine accepts the metadata and the page of both."""
    release.build(tmp_path / "dist", sources)
    (archive,), (again,) = (tmp_path / "dist").glob("*.tar.gz"), (tmp_path / "dist").glob("*.whl")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {*FILES} <= names
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())
    with zipfile.ZipFile(again) as built:
        (name,) = [name for name in built.namelist() if name.endswith("/METADATA")]
        metadata = email.message_from_string(built.read(name).decode())
    assert metadata["Version"] == mtf_imaging.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert len(metadata.get_payload()) > 1000  # the README
    with pytest.raises(SystemExit, match="is not empty"):
        release.build(tmp_path / "dist", sources)


def test_pip_refuses_an_unsupported_python(wheel, tmp_path):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", wheel, "--dest"]
    call(*command, tmp_path / "3.13", "--python-version", "3.13", cwd=tmp_path)
    done = subprocess.run([*command, tmp_path / "3.14", "--python-version", "3.14"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "'mtf-imaging' requires a different Python: 3.14" in done.stderr


def test_an_editable_installation_has_the_same_files(sources, wheel, tmp_path):
    (tmp_path / "empty").mkdir()
    seen = [
        call(make_environment(tmp_path / name, *install) / "python", "-c", LOOK, cwd=tmp_path / "empty")
        for name, install in (("installed", [wheel]), ("editable", ["--editable", sources]))
    ]
    assert seen[0] == seen[1]
    assert '"layouts/2x2.gin"' in seen[0]
    assert '"gin-config": true, "in the way": [], "version": "0.1.0"' in seen[0]


def test_the_installed_program_works_from_an_empty_folder(wheel, tmp_path):
    program = make_environment(tmp_path / "installed", wheel) / "mtf-imaging"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert call(program, "--version", cwd=empty).split()[:2] == ["mtf-imaging", mtf_imaging.__version__]
    assert "mtf-imaging COMMAND [flags]" in call(program, "--help", cwd=empty)
    assert "--output_dir" in call(program, "demo", "--help", cwd=empty)
    call(program, "phantom", "--output_dir=cases", "--num_cases=1", cwd=empty)
    call(program, "convert", "--input_dir=cases", "--output_dir=records", "--resolution=16", cwd=empty)
    job = ("--gin_file=unet3d_demo", "--gin_file=2x2", "--num_steps=2")
    call(program, "train", "--data_dir=records", "--model_dir=model", *job, cwd=empty)
    call(program, "evaluate", "--model_dir=model", "--input_dir=cases", "--output_dir=evaluation", cwd=empty)
    call(program, "predict", "--model_dir=model", "--input=cases/volume-0.nii.gz", "--output=s.nii.gz", cwd=empty)
    call(
        program,
        "score",
        "--reference_dir=cases",
        "--prediction_dir=evaluation/predictions",
        "--output_dir=s",
        cwd=empty,
    )
    reports = [(empty / folder / "report.html").read_text() for folder in ("s", "evaluation")]
    of_network = r'<details id="provenance">.*?</details>|<section id="calibration">.*?</section>'
    scores = [re.sub(of_network, "", text, flags=re.DOTALL) for text in reports]
    assert scores[0] == scores[1] != reports[1]
    assert "ckpt-2 (last), step 2" in call(program, "info", "evaluation", "s.nii.gz", cwd=empty)
    written = {"cases", "records", "model", "evaluation", "s", "s.nii.gz"}
    assert {path.name for path in empty.iterdir()} == written


def test_the_page_on_custom_networks_works_in_an_empty_folder(wheel, tmp_path):
    programs = make_environment(tmp_path / "installed", wheel)
    folder = tmp_path / "own_model"
    folder.mkdir()
    page = ROOT / "docs" / "guides" / "own_network.md"
    pages.write_files(page, folder)
    printed = {}
    for line in pages.command_lines(page):
        program, *words = shlex.split(line)
        printed[line] = call(programs / program, *words, cwd=folder)
    assert pages.blocks(page, "text")[0] in "".join(printed.values())
    assert float(printed["python use.py"].removeprefix("Dice: ")) > 0.6
    losses = {
        name: np.loadtxt(folder / name / "losses.csv", delimiter=",", skiprows=1, usecols=1)
        for name in ("run", "whole", "bands", "lion")
    }
    for found in losses.values():
        assert len(found) == 100
        assert np.mean(found[-10:]) < 0.3 * found[0]
    np.testing.assert_allclose(losses["run"], losses["whole"], rtol=5e-3)  # Adam amplifies rounding
    np.testing.assert_allclose(losses["bands"], losses["whole"], rtol=5e-3)
