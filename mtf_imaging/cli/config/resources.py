"""Where the gin files that ship with the package are: in a clone, and installed."""

from pathlib import Path

import mtf_imaging

FOLDERS = ("gin", "layouts")


def root() -> Path:
    """Returns the folder that holds gin/ and layouts/: the clone's where this is one, else the package's own."""
    package = Path(mtf_imaging.__file__).parent
    in_a_clone = (package.parent / "setup.py").is_file()
    return package.parent if in_a_clone else package


def shipped_files() -> dict[str, Path]:
    """Returns the shipped gin files by the name to call them by: {"layouts/2x2.gin": path, ...}."""
    return {f"{name}/{path.name}": path for name in FOLDERS for path in sorted((root() / name).glob("*.gin"))}


def is_shipped(file: Path) -> bool:
    """Whether a file is one of the shipped gin files."""
    return file.resolve().parent in {(root() / name).resolve() for name in FOLDERS}
