"""The files that changed since a commit, and the tests that these changes can break."""

import fnmatch
import subprocess
from pathlib import Path

from tests.selection.imports import ROOT, closure, module_name, modules

# Files that are not modules, with the modules that read them. A change of such a file counts as a change of these
# modules; None stands for all modules. The first pattern that matches counts.
READERS = {
    "setup.py": None,
    "pytest.ini": None,
    "gin/*": ["mtf_imaging.cli.config.gin_config"],
    "layouts/*": ["mtf_imaging.cli.config.gin_config"],
    "benchmarks/*.gin": ["benchmarks.context_study.__main__", "benchmarks.resolution_study"],
    "mtf_imaging/data/cases/schemes.json": ["mtf_imaging.data.cases.schemes"],
    "mtf_imaging/evaluation/report/*": ["mtf_imaging.evaluation.report"],
    "mtf_imaging/evaluation/volume_report/*": ["mtf_imaging.evaluation.volume_report"],
    "mtf_imaging/kinds/photos/report/*": ["mtf_imaging.kinds.photos.report"],
    "mtf_imaging/kinds/objects/report/*": ["mtf_imaging.kinds.objects.report"],
    "mtf_imaging/py.typed": ["tests.test_packaging"],
    "tests/evaluation/official_scores/*": ["tests.evaluation.test_official"],
    "tests/golden/*": ["tests.golden.runs"],
    "tests/networks/data/*": ["tests.networks.test_nnunet", "tests.networks.test_nnunet_predictions"],
    "tests/size.json": ["tests.test_size"],
    "tests/selection/durations.json": ["tests.test_selection"],
    "tests/references/*": [],
    "docs/kubernetes/*": ["tests.hosts.pods"],
    "Dockerfile": ["tests.hosts.pods"],
    "docs/pictures/badges/*": ["tests.test_release_files"],
    "docs/*.ipynb": ["tests.test_notebook"],
    "docs/reference/mtf_functions.md": [
        "tests.engine.upstream.functions_page",
        "tests.test_docs",
        "tests.test_docs_site",
    ],
    "docs/guides/inspect.md": ["tests.jobs.test_inspecting", "tests.test_docs", "tests.test_docs_site"],
    "docs/*": ["tests.test_docs", "tests.test_docs_site", "tests.test_errors_page", "tests.test_operation_table"],
    ".github/*": ["tests.test_release_files"],
    ".readthedocs.yaml": ["tests.test_release_files"],
    ".pre-commit-config.yaml": ["tests.test_release_files"],
    "CITATION.cff": ["tests.test_release_files", "tests.test_packaging"],
    "*.md": ["tests.test_docs", "tests.test_contributing", "tests.test_release_files"],
    ".ci/*": ["tests.test_contributing", "tests.test_release_files"],
    "Makefile": ["tests.test_contributing", "tests.test_docs", "tests.test_release_files"],
    "pyproject.toml": ["tests.test_packaging", "tests.test_release_files"],
    "ruff.toml": ["tests.test_packaging"],
    "MANIFEST.in": ["tests.test_packaging"],
    ".dockerignore": ["tests.test_kubernetes"],
    "LICENSE": ["tests.test_packaging"],
    ".gitignore": [],
}
DAY = 24 * 60 * 60
MAIN = ("origin/main", "main")  # branches whose last landed state a branch is compared with


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def base(revision: str) -> str | None:
    """Returns the commit to compare with.

    Args:
      revision: a commit; or "" for the commit at which the branch left main. On main, this is the newest state of main
        that is at least a day older than HEAD; commits that a merge brought are not states of main.

    Returns:
      The hash of the commit; None if the history does not contain an older commit, or if there is no repository.

    Raises:
      subprocess.CalledProcessError: the named commit does not exist.
    """
    if revision:
        return _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    for branch in MAIN:
        try:
            if (point := _git("merge-base", "HEAD", branch)) != _git("rev-parse", "HEAD"):
                return point
        except (OSError, subprocess.CalledProcessError):
            continue  # there is no such branch, or no repository
    try:
        newest = int(_git("log", "-1", "--format=%ct"))
        return _git("rev-list", "-1", "--first-parent", f"--before={newest - DAY}", "HEAD") or None
    except (OSError, subprocess.CalledProcessError):
        return None


def turn() -> int:
    """Returns a number that rotates with the changes of code: the number of commits of a branch that change a module.

    A merge counts as one commit. If the history is incomplete, the number is that of HEAD.
    """
    try:
        if _git("rev-parse", "--is-shallow-repository") == "true":
            return int(_git("rev-parse", "HEAD")[:8], 16)
        return int(_git("rev-list", "--count", "--first-parent", "HEAD", "--", "*.py"))
    except (OSError, subprocess.CalledProcessError):
        return 0


def changed_files(commit: str) -> list[str]:
    """Returns the files that differ from a commit, with files that are not committed yet."""
    names = _git("diff", "--name-only", commit) + "\n" + _git("ls-files", "--others", "--exclude-standard")
    return sorted({*names.split("\n")} - {""})


def readers(file: str) -> list[str] | None:
    """Returns the modules that a change of a file changes; None for all modules.

    Raises:
      KeyError: the file is not a module, and no pattern of `READERS` matches it.
    """
    path = ROOT / file
    if path.suffix == ".py" and path.is_file() and (name := module_name(path)) in modules():
        return [name]
    if Path(file).suffix == ".py" and not path.is_file():
        return []  # The modules that imported a deleted file have changed, too.
    for pattern, names in READERS.items():
        if fnmatch.fnmatch(file, pattern):
            return names
    raise KeyError(file)


def changed_modules(files: list[str]) -> frozenset[str] | None:
    """Returns the modules that the changes of some files change; None for all modules."""
    changed = set()
    for file in files:
        try:
            names = readers(file)
        except KeyError:
            return None  # Nothing is known about this file.
        if names is None:
            return None
        changed |= {*names}
    return frozenset(changed)


def can_break(test_module: str, changed: frozenset[str] | None) -> bool:
    """Returns whether a test module runs code of a changed module."""
    return changed is None or not changed.isdisjoint(closure(test_module))
