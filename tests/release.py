"""Builds and checks the files of a release, and prints its notes.

python -m tests.release dist                 # or make dist: builds into dist/, also between releases
python -m tests.release dist --tag v0.1.0    # also refuses a tag that the files do not agree with
python -m tests.release notes                # the section of CHANGELOG.md about this version
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNRELEASED = "unreleased"


def version(root: Path = ROOT) -> str:
    """Returns the version of the package, without importing it."""
    return re.search(r'^__version__ = "(.+)"$', (root / "mtf_imaging/__init__.py").read_text(), re.MULTILINE)[1]


def repository(root: Path = ROOT) -> str:
    """Returns the public address of the repository; "" before it is public."""
    return tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mtf_imaging"]["repository"].rstrip("/")


def sections(root: Path = ROOT) -> list[tuple[str, str, str]]:
    """Returns (version, date or "unreleased", text) for the sections of CHANGELOG.md, the newest first."""
    pieces = re.split(r"^## (\S+) \((\S+)\)\n", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    return [(*pieces[i : i + 2], pieces[i + 2].strip()) for i in range(0, len(pieces), 3)]


def faults(tag: str, root: Path = ROOT) -> list[str]:
    """Returns why a tag cannot be released, with a fix for each reason."""
    number, date, _ = sections(root)[0]
    own, cited = version(root), (root / "CITATION.cff").read_text()
    found = []
    if tag != f"v{own}":
        found.append(f"the tag is {tag}, but mtf_imaging/__init__.py says {own}. Fix: tag the commit v{own}")
    if number != own:
        found.append(f"the first section of CHANGELOG.md is about {number}, not {own}. Fix: add a section for {own}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        found.append(f"the first section of CHANGELOG.md has the date {date!r}. Fix: write the day, as in 2030-01-31")
    elif not re.search(rf"^date-released: [\"']?{date}[\"']?$", cited, re.MULTILINE):
        found.append(f"CITATION.cff does not say date-released: {date}. Fix: add this line")
    address = repository(root)
    if not address.startswith("https://"):
        found.append("the repository in pyproject.toml has no address. Fix: write https://..., so that links work")
    elif not re.search(rf"^repository-code: {re.escape(address)}$", cited, re.MULTILINE):
        found.append(f"CITATION.cff does not say repository-code: {address}. Fix: add this line")
    return found


def build(out: Path, root: Path = ROOT) -> None:
    """Builds the source archive, and from it the wheel, and checks their metadata and page for the package index.

    Raises:
      SystemExit: the folder is not empty, or a step failed.
    """
    if out.exists() and any(out.iterdir()):
        sys.exit(f"{out} is not empty. Fix: remove the files of the last build")
    for words in (
        ("build", "--no-isolation", "--outdir", out, root),
        ("twine", "check", "--strict", f"{out}/*"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            print(done.stdout)
            sys.exit(f"python -m {words[0]} failed with exit status {done.returncode}")
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path}")


def main(argv: list[str]) -> None:
    """Runs one of the commands above."""
    parser = argparse.ArgumentParser(prog="python -m tests.release")
    commands = parser.add_subparsers(dest="command", required=True)
    dist = commands.add_parser("dist", help="build and check the files of a release")
    dist.add_argument("--tag", help="the tag of the release")
    dist.add_argument("--output_dir", type=Path, default=Path("dist"))
    commands.add_parser("notes", help="print the newest section of CHANGELOG.md")
    args = parser.parse_args(argv)
    if args.command == "notes":
        print(sections()[0][2])
        return
    if args.tag and (found := faults(args.tag)):
        sys.exit("This commit cannot be released:\n" + "\n".join(f"- {fault}." for fault in found))
    build(args.output_dir)


if __name__ == "__main__":
    main(sys.argv[1:])
