"""Writes phantoms: synthetic CTs of abdomens with liver lesions, and MR images of brains with tumors."""

from mtf_imaging.data.phantom.kinds import KINDS
from mtf_imaging.data.phantom.phantom import make_case, write_phantom

__all__ = ["KINDS", "make_case", "write_phantom"]
