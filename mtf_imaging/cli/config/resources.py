"""Locates the shipped gin files, in a clone and in an installed package."""

from pathlib import Path

import mtf_imaging

FOLDERS = ("gin", "layouts")


def root() -> Path:
    """Returns the folder that contains gin/ and layouts/: the root of the clone, or the installed package."""
    package = Path(mtf_imaging.__file__).parent
    in_a_clone = (package.parent / "setup.py").is_file()
    return package.parent if in_a_clone else package


def shipped_files() -> dict[str, Path]:
    """Returns the shipped gin files by name: {"layouts/2x2.gin": path, ...}."""
    return {f"{name}/{path.name}": path for name in FOLDERS for path in sorted((root() / name).glob("*.gin"))}


def is_shipped(file: Path) -> bool:
    """Returns whether a file is one of the shipped gin files."""
    return file.resolve().parent in {(root() / name).resolve() for name in FOLDERS}
