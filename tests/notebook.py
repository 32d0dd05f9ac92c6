"""Runs notebooks of the documentation. The following command runs a notebook and saves its outputs:

python -m tests.notebook docs/start/layouts.ipynb
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests import waiting

__all__ = ["CellExecutionError", "run"]

ROOT = Path(__file__).parents[1]
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def run(path: Path, timeout: int = int(waiting.LIMIT)):
    """Runs a notebook in the root folder of this repository, so that it imports the package of this repository.

    Args:
      path: the .ipynb file, which is not changed.
      timeout: time limit of a cell in seconds.

    Returns:
      The notebook with its outputs, without the Python version and the run times of this machine.

    Raises:
      CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=resources, record_timing=False).execute()
    notebook.metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(run(Path(name)), name)
