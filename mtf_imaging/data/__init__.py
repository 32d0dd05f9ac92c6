"""Reads NIfTI cases, converts them to records and augments training samples."""

import importlib

_MODULES = {
    "Augmentation": "mtf_imaging.data.augmentation",
    "Records": "mtf_imaging.data.records.data_set",
}

__all__ = ["Augmentation", "Records"]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
