"""A notebook of the documentation, run from its first cell to its last. To run one anew and keep what it then shows:

python -m tests.notebook docs/start/layouts.ipynb
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

__all__ = ["CellExecutionError", "run"]

ROOT = Path(__file__).parents[1]
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def run(path: Path, timeout: int = 300):
    """Runs a notebook in the folder of the clone, so that it is this clone's package which it imports.

    Args:
      path: the .ipynb file, which is left as it is.
      timeout: seconds that a cell may take.

    Returns:
      The notebook with its outputs, without what tells of this machine: its Python, and when cells were run.

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
