"""The parts of matplotlib that write pictures to files.

They do not need a backend, so a notebook keeps its own. `MPLBACKEND` may name a backend that is not installed here:
Jupyter sets the variable for every program that a cell starts. Importing matplotlib then fails.
"""

import os
import sys

try:
    import matplotlib
except ValueError:
    for _name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        del sys.modules[_name]  # left over from the failed import
    _backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if _backend is not None:
            os.environ["MPLBACKEND"] = _backend  # restored for child processes

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

__all__ = ["Figure", "FigureCanvasAgg", "MaxNLocator", "PolyCollection", "Rectangle", "matplotlib"]
