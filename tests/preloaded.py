"""Imports what most commands need, once for all processes of `tests.forked`."""

import tensorflow as tf  # noqa: F401

import mtf_imaging as mi
from mtf_imaging import jobs  # noqa: F401

mi.mtf  # noqa: B018 - imported at its first use
