"""The parts of matplotlib that draw pictures into files.

They need no backend, so they leave the backend of a notebook as it is. `MPLBACKEND` may name a backend of another
environment: Jupyter sets the variable for every program that a cell starts. Matplotlib then cannot be imported.
"""

import os
import sys

try:
    import matplotlib
except ValueError:
    for _name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        del sys.modules[_name]  # they belong to the failed import
    _backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if _backend is not None:
            os.environ["MPLBACKEND"] = _backend  # as it was, for programs that this one starts

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

__all__ = ["Figure", "FigureCanvasAgg", "MaxNLocator", "PolyCollection", "Rectangle", "matplotlib"]
