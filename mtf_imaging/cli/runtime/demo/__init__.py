"""The steps of the demo for each kind of data, and its summary. Does not import TensorFlow."""
