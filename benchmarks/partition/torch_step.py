"""The PyTorch contender: the same network, not partitioned, channels last."""

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.partition.networks import EPSILON, LEARNING_RATE, MOMENTUM, NEGATIVE_SLOPE

_LAST = torch.channels_last_3d


class Torch:
    """The network in eager PyTorch on a GPU, or on the CPU without a GPU."""

    nodes = None

    def __init__(self, step, contender):
        self._step, self._device = step, "cuda" if torch.cuda.is_available() else "cpu"
        self._dtype = getattr(torch, step.dtype)

    def build(self):
        image, labels = self._step.inputs()
        self._image = self._tensor(np.moveaxis(image, -1, 1), _LAST).to(self._dtype)
        self._labels = torch.from_numpy(labels).to(self._device, torch.long)
        self._weights = {name: self._weight(name, value) for name, value in self._step.weights().items()}
        self._moving = {
            name: [torch.zeros_like(scale.detach()), torch.ones_like(scale.detach())]
            for name, scale in self._weights.items()
            if name.endswith("scale")
        }

    def take(self):
        loss = F.cross_entropy(self._logits().float(), self._labels)
        weights = list(self._weights.values())
        with torch.no_grad():
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights)):
                weight -= LEARNING_RATE * gradient
        if self._device == "cuda":
            torch.cuda.synchronize()
        return float(loss)

    def device_peak(self):
        return torch.cuda.max_memory_allocated() if self._device == "cuda" else None

    def others(self):
        return {}

    def _tensor(self, value, memory_format=torch.contiguous_format):
        return torch.from_numpy(np.ascontiguousarray(value)).to(self._device).contiguous(memory_format=memory_format)

    def _weight(self, name, value):
        """Converts [kernel..., in, out] (transposed: [kernel..., out, in]) to PyTorch's [out, in, kernel...]."""
        if name.endswith("filter"):
            return self._tensor(np.transpose(value, (4, 3, 0, 1, 2)), _LAST).requires_grad_()
        return self._tensor(value).requires_grad_()

    def _logits(self):
        x, skips = self._image, []
        for level in range(self._step.depth):
            if level:
                skips.append(x)
                x = F.max_pool3d(x, 2)
            x = self._block(x, f"down{level}")
        for level in reversed(range(self._step.depth - 1)):
            kernel, bias = (self._of(f"grow{level}/{which}") for which in ("filter", "bias"))
            x = F.conv_transpose3d(x, kernel, bias, stride=2)
            x = self._block(torch.cat([x, skips.pop()], 1), f"up{level}")
        return F.conv3d(x, self._of("classes/filter"), self._of("classes/bias"))

    def _of(self, name):
        return self._weights[name].to(self._dtype) if name in self._weights else None

    def _block(self, x, name):
        for i in range(self._step.convs):
            x = F.conv3d(x, self._of(f"{name}/conv{i}/filter"), self._of(f"{name}/conv{i}/bias"), padding="same")
            if self._step.batch_norm:
                scale, offset = (self._weights[f"{name}/norm{i}/{which}"] for which in ("scale", "offset"))
                x = F.batch_norm(x, *self._moving[f"{name}/norm{i}/scale"], scale, offset, True, 1 - MOMENTUM, EPSILON)
            x = F.leaky_relu(x, NEGATIVE_SLOPE)
            if self._step.drops(name, i):
                x = F.dropout(x, self._step.dropout_rate)
        return x
