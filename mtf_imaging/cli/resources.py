"""Where the gin files that ship with the package are: in a clone, and installed."""

from pathlib import Path

import mtf_imaging

FOLDERS = ("gin", "layouts")


def folder(name: str) -> Path:
    """Returns the folder of shipped files called `name`: inside the package where installed, beside it in a clone."""
    package = Path(mtf_imaging.__file__).parent
    inside, beside = package / name, package.parent / name
    in_a_clone = (package.parent / "setup.py").is_file()  # else what stands beside the package is someone else's
    return beside if in_a_clone and not inside.is_dir() else inside


def shipped_files() -> dict[str, Path]:
    """Returns the shipped gin files by the name to call them by: {"layouts/2x2.gin": path, ...}."""
    return {f"{name}/{path.name}": path for name in FOLDERS for path in sorted(folder(name).glob("*.gin"))}
