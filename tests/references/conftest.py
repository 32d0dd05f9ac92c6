"""Skips the collection of this folder where its programs are not installed; `make test-references` installs them."""

import importlib.util

PROGRAMS = (
    *("dcm2niix", "keras_unet_collection", "medpy", "ngff_zarr", "official", "safetensors", "surface_distance"),
    *("torch", "torchvision"),
)

if any(importlib.util.find_spec(name) is None for name in PROGRAMS):
    collect_ignore_glob = ["test_*.py"]
