"""The training loop and its components, independent of any model and data set.

The protocols `task.Task` and `data_set.DataSet` define what the loop requires of a model and a data set. Each module is
imported when it is first used, for instance by `mi.training.prediction.predictor`.
"""

import importlib.util
from types import ModuleType

from mtf_imaging.files.log_lines import import_quietly


def __getattr__(name: str) -> ModuleType:
    module = f"{__name__}.{name}"
    if name.startswith("_") or importlib.util.find_spec(module) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_quietly(module)
