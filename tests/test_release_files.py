"""The files of a release and of GitHub: valid, and in agreement with setup.py, the Makefile and each other."""

import functools
import os
import re
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

import mtf_imaging
from tests import badges, install, release

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
SCHEMAS = {  # file: schema of check-jsonschema, which needs no network
    **dict.fromkeys(WORKFLOWS, "vendor.github-workflows"),
    **dict.fromkeys(ROOT.glob(".github/ISSUE_TEMPLATE/[!c]*.yml"), "vendor.github-issue-forms"),
    ROOT / ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    ROOT / ".github/dependabot.yml": "vendor.dependabot",
    ROOT / ".readthedocs.yaml": "vendor.readthedocs",
    ROOT / "CITATION.cff": "vendor.citation-file-format",
}


setup = functools.cache(badges.setup_arguments)


@functools.cache
def index_page():
    """Returns the function of setup.py, without running `setup`."""
    text = (ROOT / "setup.py").read_text()
    (function,) = re.findall(r"^def index_page\(.*?(?=^\S)", text, re.MULTILINE | re.DOTALL)
    names = {"re": re}
    exec(function, names)
    return names["index_page"]


def steps(path):
    """Yields the steps of a workflow."""
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        yield from job["steps"]


def pythons():
    """Returns the supported versions of Python, such as 3.11."""
    supported = SpecifierSet(setup()["python_requires"])
    return [version for version in (f"3.{minor}" for minor in range(8, 30)) if supported.contains(f"{version}.0")]


def test_files_follow_their_schemas():
    assert len(SCHEMAS) == 9
    for schema in {*SCHEMAS.values()}:
        files = [path for path, own in SCHEMAS.items() if own == schema]
        check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
        done = subprocess.run(check, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_the_schemas_find_faults(tmp_path):
    broken = tmp_path / "ci.yml"
    broken.write_text((ROOT / ".github/workflows/ci.yml").read_text().replace("runs-on:", "run-on:"))
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", broken]
    assert subprocess.run(check, capture_output=True).returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_run_what_exists(path):
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    seen = set()
    for step in steps(path):
        for line in step.get("run", "").splitlines():
            words = shlex.split(line)
            seen.add(words[0])
            if words[0] == "make":
                assert words[1] in targets
            elif words[0] == "bash":
                assert (ROOT / words[1]).is_file()
            elif words[1:2] == ["-m"]:
                assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
            else:
                assert words[0] == "gh"
        for key in ("cache-dependency-path",):
            if key in step.get("with", {}):
                assert (ROOT / step["with"][key]).is_file()
    assert "make" in seen


def test_every_supported_python_is_tested_and_named():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    matrix = jobs["fast-tests"]["strategy"]["matrix"]["python-version"]
    (own,) = [
        step["with"]["python-version"] for step in jobs["all-checks"]["steps"] if "python" in step.get("uses", "")
    ]
    assert sorted([*matrix, own]) == pythons()
    assert any(step.get("run") == "bash .ci/run" for step in jobs["all-checks"]["steps"])
    classifiers = [name.rpartition(" ")[2] for name in setup()["classifiers"] if "Python :: 3." in name]
    assert classifiers == pythons()
    sentence = f"Python {', '.join(pythons()[:-1])} or {pythons()[-1]}"
    for name in ("README.md", "docs/start/install.md", "Makefile"):
        assert sentence in (ROOT / name).read_text(), name
    (makefile,) = re.findall(r"for p in python3 (.*?);", (ROOT / "Makefile").read_text())
    assert makefile.split() == [f"python{version}" for version in reversed(pythons())]


def test_badges_say_what_setup_says():
    drawn = badges.badges(setup())
    kept = {path.name: path.read_text() for path in badges.FOLDER.iterdir()}
    assert kept == drawn, "run python -m tests.badges"
    assert ">3.11 | 3.12 | 3.13<" in drawn["python.svg"]
    assert ">Apache-2.0<" in drawn["license.svg"]
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert (ROOT / "mtf_imaging/py.typed").is_file()


def test_hooks_run_the_programs_of_make_lint():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    programs = {line.split()[0] for line in lint.splitlines()}
    assert len(repository["hooks"]) == 3
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert shlex.split(hook["entry"])[0] in programs


def test_the_documentation_is_built_with_its_packages():
    config = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert (ROOT / config["sphinx"]["configuration"]).is_file()
    for entry in config["python"]["install"]:
        assert {*entry["extra_requirements"]} <= setup()["extras_require"].keys()


def test_the_version_is_that_of_the_package():
    own = mtf_imaging.__version__
    number, day, _ = release.sections()[0]
    assert setup()["version"] == release.version() == number == own
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == own
    assert cited["license"] == setup()["license_expression"]
    if day == release.UNRELEASED:
        assert "date-released" not in cited
    else:
        assert cited["date-released"] == date.fromisoformat(day)
    for path in (ROOT / "Dockerfile", *ROOT.glob("docs/**/*.md")):
        assert {*re.findall(r"mtf-imaging:(\d+\.\d+\.\d+)", path.read_text())} <= {own}, path


def test_the_papers_are_cited():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    assert [reference["identifiers"][0]["value"] for reference in cited] == ["arXiv:1909.03108", "arXiv:1811.02084"]
    for reference in cited:
        assert reference["url"].rpartition("/")[2] == reference["identifiers"][0]["value"].removeprefix("arXiv:")


def test_the_address_of_the_repository_is_the_same_everywhere():
    address = release.repository()
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text()).get("repository-code", "") == address
    for path in ROOT.glob("docs/**/*.ipynb"):
        assert re.search(r'REPOSITORY = \\"(.*?)\\"', path.read_text())[1] == address, path
    urls = setup()["project_urls"]
    assert len(urls) == (4 if address else 0)
    for url in urls.values():
        assert url.startswith(address)
        if "/blob/main/" in url:
            assert (ROOT / url.partition("/blob/main/")[2]).is_file()


README = """[a `b`](docs/a.md#c), [web](https://example.org/x), ![p](docs/p.png), [here](#more)
[![badge](https://example.org/b.svg)](LICENSE) [mail](mailto:a@example.org) [![p](docs/p.png)](docs/a.md)
<a href="docs/a.md">html</a> <img width="9" src="docs/p.png"/> <img src="https://example.org/q.png"> `a[0](b)`
"""


def test_links_of_the_page_on_the_index_are_absolute():
    assert index_page()(README, "https://example.org/own", "1.2") == (
        "[a `b`](https://example.org/own/blob/v1.2/docs/a.md#c), [web](https://example.org/x), "
        "![p](https://example.org/own/raw/v1.2/docs/p.png), [here](#more)\n"
        "[![badge](https://example.org/b.svg)](https://example.org/own/blob/v1.2/LICENSE) [mail](mailto:a@example.org) "
        "[![p](https://example.org/own/raw/v1.2/docs/p.png)](https://example.org/own/blob/v1.2/docs/a.md)\n"
        '<a href="https://example.org/own/blob/v1.2/docs/a.md">html</a> '
        '<img width="9" src="https://example.org/own/raw/v1.2/docs/p.png"/> <img src="https://example.org/q.png"> '
        "`a[0](b)`\n"
    )


def test_without_an_address_links_to_files_become_text():
    assert index_page()(README, "", "1.2") == (
        "a `b`, [web](https://example.org/x), , [here](#more)\n"
        "![badge](https://example.org/b.svg) [mail](mailto:a@example.org) \n"
        'html  <img src="https://example.org/q.png"> `a[0](b)`\n'
    )


@pytest.mark.parametrize("address", ["", "https://example.org/own"])
def test_the_page_on_the_index_has_no_relative_links(address):
    text = index_page()((ROOT / "README.md").read_text(), address, "1.2")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]*)"', text)
    assert [link for link in links if not re.match(r"https?:|#", link)] == []
    assert len(links) > (20 if address else 1)


def write_release(folder, **texts):
    """Writes the files that a release compares, those of version 1.2, with changes."""
    files = {
        "mtf_imaging/__init__.py": '__version__ = "1.2"\n',
        "CHANGELOG.md": "# Changelog\n\n## 1.2 (2030-01-31)\n\n- More.\n\n## 1.1 (2029-01-31)\n\n- First.\n",
        "CITATION.cff": "date-released: 2030-01-31\nrepository-code: https://example.org/own\n",
        "pyproject.toml": '[tool.mtf_imaging]\nrepository = "https://example.org/own/"\n',
        **texts,
    }
    (folder / "mtf_imaging").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def test_files_that_agree_can_be_released(tmp_path):
    write_release(tmp_path)
    assert release.faults("v1.2", tmp_path) == []
    assert release.sections(tmp_path)[0] == ("1.2", "2030-01-31", "- More.")


@pytest.mark.parametrize(
    ("tag", "texts", "fault"),
    [
        ("v1.3", {}, "the tag is v1.3, but mtf_imaging/__init__.py says 1.2. Fix: tag the commit v1.2"),
        ("1.2", {}, "the tag is 1.2, but"),
        ("v1.2", {"CHANGELOG.md": "## 1.1 (2030-01-31)\n"}, "is about 1.1, not 1.2"),
        ("v1.2", {"CHANGELOG.md": "## 1.2 (unreleased)\n"}, "has the date 'unreleased'. Fix: write the day"),
        ("v1.2", {"CHANGELOG.md": "## 1.2 (2030-02-01)\n"}, "CITATION.cff does not say date-released: 2030-02-01"),
        ("v1.2", {"pyproject.toml": '[tool.mtf_imaging]\nrepository = ""\n'}, "has no address. Fix: write https://"),
        (
            "v1.2",
            {"CITATION.cff": "date-released: 2030-01-31\n"},
            "does not say repository-code: https://example.org/own",
        ),
    ],
)
def test_files_that_disagree_are_not_released(tmp_path, tag, texts, fault):
    write_release(tmp_path, **texts)
    (found,) = release.faults(tag, tmp_path)
    assert fault in found


PIP = """Obtaining file:///clone
  Installing build dependencies: started
Collecting tensorflow<2.23,>=2.19 (from mtf-imaging==0.1.0)
  Downloading tensorflow-2.21.0-cp311-cp311-manylinux_2_17_x86_64.whl (577.0 MB)
Collecting absl-py<3,>=2.1 (from mtf-imaging==0.1.0)
  Using cached absl_py-2.3.1-py3-none-any.whl.metadata (3.3 kB)
Requirement already satisfied: six in /site-packages (1.17.0)
Installing collected packages: absl-py, tensorflow, mtf-imaging
Successfully installed absl-py-2.3.1
"""


def test_the_progress_of_an_installation():
    progress = install.Progress()
    seen = [progress.read(line) for line in PIP.splitlines()[:7]]
    assert [message for message in seen if message] == ["downloading tensorflow, 577.0 MB"]
    assert progress.status(0) == "found 4 packages, the last one absl_py, 3.3 kB"
    assert progress.read(PIP.splitlines()[7]) == "unpacking 3 packages"
    assert progress.status(2) == "unpacked 2 of 3 packages"
    assert progress.status(9) == "unpacked 3 of 3 packages"


def test_a_silent_installation_is_not_silent():
    said = []
    program = f"import sys, time; print({PIP!r}, flush=True); time.sleep(0.6); sys.exit(3)"
    assert install.run([sys.executable, "-c", program], said.append, pause=0.2) == 3
    assert "downloading tensorflow, 577.0 MB" in said
    assert said[-1] == "unpacked 0 of 3 packages"


def test_every_installation_shows_its_progress():
    makefile = (ROOT / "Makefile").read_text()
    assert "pip install" not in makefile
    installs = re.findall(
        r"^\t@echo \"Installing (.*)\"\n(?:.*\n)?\t@\S+/python -m tests\.install ", makefile, re.MULTILINE
    )
    assert len(installs) == 5
    # Tests run below `make test`, whose variables would make this make print its directory, too.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", "demo", "--always-make"]
    printed = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True).stdout
    assert re.match(r'echo "Installing TensorFlow .*: .* minutes\. The demo then takes \d+ minutes\."\n', printed)
