"""The notebooks of the documentation: each runs without errors and prints the saved outputs."""

import base64
import re
from pathlib import Path

import nbformat
import pytest

from tests import notebook

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def cells(found):
    return [cell for cell in found.cells if cell.cell_type == "code"]


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def pictures(cell):
    return [output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", {})]


def test_the_list_of_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["layouts.ipynb", "objects.ipynb", "photos.ipynb"]


@by_name
def test_outputs_are_saved_and_do_not_depend_on_the_machine(path):
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    assert path.stat().st_size < 1_000_000
    assert [cell.execution_count for cell in cells(found)] == [*range(1, len(cells(found)) + 1)]
    drawing = [cell for cell in cells(found) if re.search(r"^(show\(|plt\.show)", cell.source, re.MULTILINE)]
    assert len(drawing) >= 4
    for cell in drawing:
        assert base64.b64decode(pictures(cell)[0]).startswith(b"\x89PNG")
    for cell in cells(found):
        assert bool(printed(cell)) == ("print(" in cell.source)
        assert not cell.metadata
        for output in cell.outputs:
            assert output.output_type == "display_data" or output.get("name") == "stdout"
    assert not re.search(r"/(home|root|tmp|usr|work)/", re.sub(r'"image/png": ".*?"', "", path.read_text()))


@by_name
def test_the_targets_of_links_exist(path):
    for cell in nbformat.read(path, as_version=4).cells:
        for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
            assert (path.parent / target).exists(), target


@pytest.mark.slow
@by_name
def test_every_cell_prints_its_saved_output(path):
    kept, new = nbformat.read(path, as_version=4), notebook.run(path)
    for cell, again in zip(cells(kept), cells(new), strict=True):
        assert printed(again) == printed(cell)
        assert len(pictures(again)) == len(pictures(cell))


@by_name
@pytest.mark.parametrize(
    ("address", "clone", "expected"),
    [
        ("", False, "mtf-imaging"),
        ("https://example.org/own", False, "git+https://example.org/own"),
        ("https://example.org/own", True, "the clone"),
    ],
)
def test_the_first_cell_installs_the_package_where_it_is_missing(path, address, clone, expected, tmp_path, monkeypatch):
    first, *_ = cells(nbformat.read(path, as_version=4))
    code = re.sub(r'REPOSITORY = ".*?"', f'REPOSITORY = "{address}"', first.source)
    code = code.replace("%pip install --quiet {source}", "installed = source")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    if clone:
        (tmp_path / "mtf_imaging/mtf_imaging").mkdir(parents=True)
        (tmp_path / "mtf_imaging/mtf_imaging/errors.py").touch()
    names = {}
    exec(code, names)
    assert names["installed"] == (str(tmp_path / "mtf_imaging") if clone else expected)


def test_an_error_in_a_cell_is_raised(tmp_path):
    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(broken, tmp_path / "broken.ipynb")
    with pytest.raises(notebook.CellExecutionError, match="ZeroDivisionError"):
        notebook.run(tmp_path / "broken.ipynb")
