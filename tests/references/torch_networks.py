"""Networks of torchvision with random weights: writes their weights, inputs and outputs.

It runs as a program of its own, because PyTorch and TensorFlow cannot always be imported in one process.
`python torch_networks.py NAME FOLDER` writes the weights in several kinds of files, and `arrays.npz` with the input
and the outputs in float64. Images and features have the order batch, (time,) height, width, channels.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision
from safetensors.numpy import save_file

SIZE = (64, 96)
CLIP = (8, 32, 48)  # frames, height, width


def randomize(net):
    """Gives all norms random statistics, scales and offsets, and the biases of convolutions random values."""
    generator = torch.Generator().manual_seed(0)
    norms = (torch.nn.modules.batchnorm._BatchNorm, torchvision.ops.FrozenBatchNorm2d)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, norms):
                for value in (module.weight, module.running_var):
                    value.uniform_(0.5, 1.5, generator=generator)
                for value in (module.bias, module.running_mean):
                    value.normal_(0, 0.1, generator=generator)
            elif getattr(module, "bias", None) is not None:
                module.bias.normal_(0, 0.1, generator=generator)


def resnet_features(net, image):
    """Returns the results of the four stages."""
    x = net.maxpool(net.relu(net.bn1(net.conv1(image))))
    features = []
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        x = stage(x)
        features.append(x)
    return features


def channels_last(x):
    """Moves the channels of a tensor to the end, as an array."""
    return x.movedim(1, -1).numpy() if x.ndim > 2 else x.numpy()


def main(name, folder):
    torch.manual_seed(0)
    image = torch.randn(1, 3, *SIZE, dtype=torch.float64)
    if name == "r2plus1d_18":
        image = torch.randn(1, 3, *CLIP, dtype=torch.float64)
        net = torchvision.models.video.r2plus1d_18(num_classes=5)
        compute = lambda net: [net(image)]  # noqa: E731
    elif name.startswith("resnet"):
        net = getattr(torchvision.models, name)()
        compute = lambda net: resnet_features(net, image)  # noqa: E731
    else:
        net = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, num_classes=5)
        compute = lambda net: list(net.backbone.body(image).values())  # noqa: E731
    net.eval()
    randomize(net)
    weights = net.state_dict()
    torch.save(weights, folder / "weights.pth")
    torch.save(weights, folder / "legacy.pth", _use_new_zipfile_serialization=False)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    training = {"model": {f"module.{key}": value for key, value in weights.items()}, "epoch": 3}
    training |= {"optimizer": optimizer.state_dict(), "args": argparse.Namespace(lr=0.1)}
    torch.save(training, folder / "training.pth")
    save_file({key: value.numpy() for key, value in weights.items()}, folder / "weights.safetensors")
    with torch.no_grad():
        outputs = [channels_last(x) for x in compute(net.double())]
    np.savez(folder / "arrays.npz", image=channels_last(image), **{f"output{i}": x for i, x in enumerate(outputs)})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
