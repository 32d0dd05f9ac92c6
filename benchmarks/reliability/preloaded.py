"""Imports the modules that most commands need, once for all `forked` processes."""

from mtf_imaging.cli.runtime.quiet import import_tensorflow

import_tensorflow()  # imported first, in the same way as the commands do

import nibabel  # noqa: E402, F401
import pydicom  # noqa: E402, F401
import zarr  # noqa: E402, F401

import mtf_imaging as mi  # noqa: E402
from mtf_imaging import jobs  # noqa: E402, F401

mi.mtf  # noqa: B018 - imported on first use
