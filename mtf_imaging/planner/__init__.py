"""Cost estimates of layouts without a device.

The model of a training step uses the same geometry as the lowering.
"""
