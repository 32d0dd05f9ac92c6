"""Batch, instance and group norm."""

from mtf_imaging.engine.ops.norm.norms import batch_norm, group_norm, instance_norm

__all__ = ["batch_norm", "group_norm", "instance_norm"]
