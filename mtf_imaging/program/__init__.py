"""Programs: functions over named tensors that are checked, lowered and run under a layout."""

from mtf_imaging.program.program import Program

__all__ = ["Program"]
