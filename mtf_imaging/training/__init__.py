"""The training loop, and what it is made of. It knows no model and no dataset: see `task.py` for what it needs.

Its modules are imported when they are first used: `mi.training.prediction.predictor`.
"""

import importlib
import importlib.util
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    module = f"{__name__}.{name}"
    if name.startswith("_") or importlib.util.find_spec(module) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(module)
