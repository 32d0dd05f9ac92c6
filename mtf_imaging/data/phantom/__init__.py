"""Writes phantoms: synthetic CTs of abdomens with liver lesions."""

from mtf_imaging.data.phantom.phantom import KINDS, make_case, write_phantom

__all__ = ["KINDS", "make_case", "write_phantom"]
