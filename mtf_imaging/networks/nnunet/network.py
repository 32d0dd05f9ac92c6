"""The U-Net of nnU-Net, built from ONNX operators, whose axes are those of PyTorch."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtf_imaging.errors import CheckpointError
from mtf_imaging.networks.graph import Graph
from mtf_imaging.networks.nnunet.plans import Architecture
from mtf_imaging.networks.onnx.registry import Branch, OnnxNode
from mtf_imaging.networks.onnx.source import OnnxSource
from mtf_imaging.training.checkpoints.weight_files.pytorch import PyTorchFile

_OPSET = 17
_OTHER_NETWORK = "Fix: pass the checkpoint of this model; if its trainer changes the network, export it to ONNX."
_IMAGE, _LOGITS = "image", "logits"


def own_name(name: str) -> str:
    """Returns the first of the names that PyTorch gives a weight.

    The decoder also holds the encoder, and each block also holds its layers as a list.
    """
    name = name.removeprefix("decoder.") if name.startswith("decoder.encoder.") else name
    return re.sub(r"\.all_modules\.([01])\.", lambda match: (".conv.", ".norm.")[int(match[1])], name)


class _Builder:
    """Builds the nodes of a U-Net, with the names of its layers in PyTorch.

    Args:
      architecture: the U-Net.
      file: the checkpoint.
    """

    def __init__(self, architecture: Architecture, file: PyTorchFile) -> None:
        self._net, self._file = architecture, file
        self._axes = len(architecture.kernels[0])
        self.nodes: list[OnnxNode] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, operator: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(OnnxNode(name, operator, inputs, (f"{name}/output",), attributes))
        return f"{name}/output"

    def weight(self, name: str, *shape: int) -> str:
        """Returns the name of a weight, whose shape must be that of the plans."""
        found = self._file.shapes.get(name)
        if found != shape:
            stored = f"has the shape {list(found)}" if found is not None else "is missing"
            raise CheckpointError(
                f"{self._file.path}: the weight '{name}' {stored}, but plans.json describes one of the shape "
                f"{list(shape)}. {_OTHER_NETWORK}"
            )
        self.constants[name] = self._file.read(name)
        return name

    def channels(self, name: str, axis: int = 0) -> int:
        """Returns a size of a weight that the plans do not state; 0 if the weight is missing."""
        return (*self._file.shapes.get(name, ()), 0, 0)[axis]

    def conv(
        self, x: str, name: str, into: int, out: int, kernel: Sequence[int], strides: Sequence[int], bias: bool
    ) -> str:
        parameters = [self.weight(f"{name}.weight", out, into, *kernel)]
        parameters += [self.weight(f"{name}.bias", out)] if bias else []
        pads = [(k - 1) // 2 for k in kernel] * 2
        return self.node("Conv", name, x, *parameters, pads=pads, strides=[*strides] or [1] * self._axes)

    def unit(
        self, x: str, name: str, into: int, out: int, kernel: Sequence[int], strides: Sequence[int] = (),
        *, bias: bool | None = None, is_active: bool = True,
    ) -> str:  # fmt: skip
        """Adds a convolution, a norm and an activation."""
        x = self.conv(x, f"{name}.conv", into, out, kernel, strides, self._net.has_bias if bias is None else bias)
        parameters = [self.weight(f"{name}.norm.{kind}", out) for kind in ("weight", "bias")]
        x = self.node("InstanceNormalization", f"{name}.norm", x, *parameters, epsilon=self._net.epsilon)
        return self.activation(x, f"{name}.nonlin") if is_active else x

    def activation(self, x: str, name: str) -> str:
        return self.node("LeakyRelu", name, x, alpha=self._net.slope)

    def residual(self, x: str, name: str, into: int, out: int, kernel: Sequence[int], strides: Sequence[int]) -> str:
        """Adds a residual block of ResNet-D, whose shortcut is pooled before it is projected."""
        y = self.unit(x, f"{name}.conv1", into, out, kernel, strides)
        y = self.unit(y, f"{name}.conv2", out, out, kernel, is_active=False)
        is_pooled = max(strides, default=1) > 1
        if is_pooled:
            x = self.node("AveragePool", f"{name}.skip.0", x, kernel_shape=[*strides], strides=[*strides])
        if into != out:
            x = self.unit(x, f"{name}.skip.{int(is_pooled)}", into, out, [1] * self._axes, bias=False, is_active=False)
        return self.activation(self.node("Add", f"{name}.add", y, x), f"{name}.nonlin2")

    def build(self) -> list[str]:
        """Returns the names of the logits, in full resolution first."""
        net, x = self._net, _IMAGE
        first = "encoder.stem.convs.0" if net.is_residual else "encoder.stages.0.0.convs.0"
        into = self.channels(f"{first}.conv.weight", 1)
        if net.is_residual:
            x, into = self.unit(x, first, into, net.features[0], net.kernels[0]), net.features[0]
        skips = []
        for s, (out, kernel) in enumerate(zip(net.features, net.kernels, strict=True)):
            for i in range(net.encoder[s]):
                strides = net.strides[s] if i == 0 else []
                if net.is_residual:
                    x = self.residual(x, f"encoder.stages.{s}.blocks.{i}", into, out, kernel, strides)
                else:
                    x = self.unit(x, f"encoder.stages.{s}.0.convs.{i}", into, out, kernel, strides)
                into = out
            skips.append(x)
        outputs = []
        for s, count in enumerate(net.decoder):
            below, stage = len(skips) - 1 - s, len(skips) - 2 - s
            out, strides = net.features[stage], net.strides[below]
            name = f"decoder.transpconvs.{s}"
            parameters = [self.weight(f"{name}.weight", net.features[below], out, *strides)]
            parameters += [self.weight(f"{name}.bias", out)] if net.has_bias else []
            x = self.node("ConvTranspose", name, x, *parameters, strides=strides)
            x = self.node("Concat", f"decoder.stages.{s}.concat", x, skips[stage], axis=1)
            for i in range(count):
                x = self.unit(x, f"decoder.stages.{s}.convs.{i}", out if i else 2 * out, out, net.kernels[stage])
            head = f"decoder.seg_layers.{s}"
            classes = self.channels(f"{head}.weight")
            outputs.append(self.conv(x, head, out, classes, [1] * self._axes, [], True))
        return outputs[::-1]


class NnunetSource(OnnxSource):
    """A trained U-Net of nnU-Net.

    `export` returns the state dict of PyTorch. In training, it also computes the logits in lower resolutions, as
    for nnU-Net's deep supervision.

    Args:
      title: the network, for error messages.
      architecture: the U-Net.
      file: the checkpoint.
    """

    def __init__(self, title: str, architecture: Architecture, file: PyTorchFile) -> None:
        self._file = file
        builder = _Builder(architecture, file)
        outputs = builder.build()
        if unknown := sorted({own_name(name) for name in file.shapes} - {*builder.constants}):
            shown = ", ".join(map(repr, unknown[:3]))
            raise CheckpointError(
                f"{file.path}: it has {len(unknown)} weights which plans.json does not describe, such as {shown}. "
                f"{_OTHER_NETWORK}"
            )
        names = [_LOGITS, *(f"{_LOGITS}_{i}" for i in range(1, len(outputs)))]
        nodes = [*builder.nodes, *(OnnxNode(to, "Identity", (x,), (to,), {}) for x, to in zip(outputs, names))]
        graph = Branch(nodes, builder.constants, names)
        channels = next(x for x in builder.constants.values() if x.ndim > 2).shape[1]
        inputs = {_IMAGE: ([None, channels, *[None] * len(architecture.kernels[0])], np.float32)}
        super().__init__(title, _OPSET, graph, inputs, self._state)
        self._predicting = OnnxSource(title, _OPSET, dataclasses.replace(graph, outputs=names[:1]), inputs, self._state)

    def trace(self, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Graph:
        return super().trace(shapes, training) if training else self._predicting.trace(shapes, training)

    def _state(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the state dict of PyTorch, as arrays."""
        return {name: values[own_name(name)] for name in self._file.shapes}
