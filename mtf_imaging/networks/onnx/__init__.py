"""Networks in ONNX files, as graphs of TensorFlow's operations, which are then converted like those of Keras."""

from mtf_imaging.networks.onnx import conversion, operators
from mtf_imaging.networks.onnx.files import onnx_network

__all__ = ["conversion", "onnx_network", "operators"]
