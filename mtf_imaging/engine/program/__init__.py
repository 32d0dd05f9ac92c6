"""Programs: functions over named tensors that are checked, lowered and run under a layout."""

from mtf_imaging.engine.program.program import Program

__all__ = ["Program"]
