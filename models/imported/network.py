"""A network of Keras, TensorFlow or ONNX as the network of a segmentation task."""

import dataclasses
import functools
from pathlib import Path

import gin

import mtf_imaging as mi

_AXES = "xyz"


@gin.configurable(module="imported")
@dataclasses.dataclass(eq=False)
class Network:
    """A network in a file that another program wrote; see `mi.networks.load`.

    Its first weights are those of the file. A softmax or sigmoid at its end is left out, because the task computes it.
    A network with two axes computes an image of one voxel along the first of three axes.

    Attributes:
      path: the path of the file, or of the folder of a SavedModel.
      axes: the order of the axes of its input between the batch and the channels, such as "zyx". Default: x, y and z.
      output: the name of the output with the logits of the classes, or of its node in a frozen graph. Default: the only
        output, or the one called logits.
    """

    path: str = dataclasses.field(kw_only=True)
    axes: str = _AXES
    output: str | None = None

    def __post_init__(self):
        if sorted(self.axes) not in (sorted(_AXES), sorted(_AXES[:2])):
            raise mi.ConfigError(
                f"imported.Network.axes = {self.axes!r}: must name each axis once. Fix: for instance 'zyx'."
            )
        nodes = (self.output,) if self.output and self.path.endswith(".pb") else None
        # Here, because a network that is loaded while a program is built would add its variables to the program.
        self._loaded = _load(Path(self.path), nodes)
        if len(self._loaded.input_names) > 1:
            raise mi.NotSupportedError(
                f"{self.path}: the network has the inputs {', '.join(self._loaded.input_names)}, but a segmentation "
                "has one image. Fix: write a task with mi.networks.task."
            )

    def __getstate__(self):
        """Returns the file and the settings; the content of the file is the identity of the network."""
        return {"path": Path(self.path), "axes": self.axes, "output": self.output}

    def __setstate__(self, state):
        self.__init__(**state)

    def __call__(self, image, is_training):
        """Returns the logits.

        Args:
          image: Tensor[batch, x, y, z, channels], or without z.
          is_training: whether batch norms use the statistics of the batch and dropouts drop.

        Returns:
          Tensor[batch, x, y, z, classes], or without z.

        Raises:
          ConfigError: the network has no such output, or its output is no segmentation of the image.
        """
        (name,) = self._loaded.input_names
        batch, *space, channels = image.shape.dims
        own = sorted(space, key=lambda dim: self.axes.index(dim.name))
        turned = mi.mtf.transpose(image, mi.mtf.Shape([batch, *own, channels]))
        if own[0].size == 1 and len(own) > self._loaded.rank:
            del own[0]
            turned = mi.mtf.reshape(turned, mi.mtf.Shape([batch, *own, channels]))
        outputs = self._loaded(training=is_training, logits=True, **{name: turned})
        if isinstance(outputs, dict):
            name = self.output or "logits"
            if name not in outputs:
                raise mi.ConfigError(
                    f"{self.path}: the network has no output {name!r}, but {', '.join(outputs)}. Fix: choose one as "
                    "imported.Network.output, or as output in the preprocessing file."
                )
            outputs = outputs[name]
        *voxels, classes = outputs.shape.dims
        if voxels != [batch, *own]:
            raise mi.ConfigError(
                f"{self.path}: the output of the network is {outputs.shape}, which is no segmentation of "
                f"{turned.shape}. Fix: use sizes that the network keeps, such as multiples of 32."
            )
        planes = mi.mtf.Shape([batch, *(dim for dim in space if dim in own), classes])
        return mi.mtf.reshape(mi.mtf.transpose(outputs, planes), mi.mtf.Shape([batch, *space, classes]))


def _load(path, nodes):
    """Returns the network in a file or a folder, which is read once."""
    files = sorted(each for each in [path, *path.rglob("*")] if each.is_file())
    stamps = tuple((each.stat().st_mtime_ns, each.stat().st_size) for each in files)
    return _load_once(path, nodes, stamps)


@functools.lru_cache(maxsize=1)
def _load_once(path, nodes, stamps):
    return mi.networks.load(path, outputs=nodes)
