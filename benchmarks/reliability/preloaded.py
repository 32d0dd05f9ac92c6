"""Imports what most commands need, once for all processes of `forked`."""

import nibabel  # noqa: F401
import pydicom  # noqa: F401
import tensorflow as tf  # noqa: F401
import zarr  # noqa: F401

import mtf_imaging as mi
from mtf_imaging import jobs  # noqa: F401

mi.mtf  # noqa: B018 - imported at its first use
