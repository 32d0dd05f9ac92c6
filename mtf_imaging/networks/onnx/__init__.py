"""Networks in ONNX files: their nodes as operations of TensorFlow, which the conversion of TensorFlow's graphs reads."""

from mtf_imaging.networks.onnx import conversion
from mtf_imaging.networks.onnx.files import onnx_network

__all__ = ["conversion", "onnx_network"]
