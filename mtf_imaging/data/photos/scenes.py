"""The former place of `mtf_imaging.kinds.photos.scenes`."""

import importlib


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("mtf_imaging.kinds.photos.scenes"), name)
