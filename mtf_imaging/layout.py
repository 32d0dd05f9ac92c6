"""The functions of `mi.layout` under the name of a module, for `from mtf_imaging.layout import parse_shape`."""

from mtf_imaging.engine.layout import *  # noqa: F403 - all public names
from mtf_imaging.engine.layout import __all__  # noqa: F401
