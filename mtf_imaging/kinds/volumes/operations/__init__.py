"""The preparation of volumes as TensorFlow operations, for exported networks."""
