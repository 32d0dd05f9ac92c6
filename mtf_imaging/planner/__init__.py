"""What a layout costs, before any device is used: a model of a training step, of the geometry that it is lowered by."""
