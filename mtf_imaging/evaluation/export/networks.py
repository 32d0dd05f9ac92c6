"""Trained networks of one or several runs, as functions of one image in plain TensorFlow operations."""

import itertools
import logging
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.meshes.portable import divisor, is_portable
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import ShapeError
from mtf_imaging.evaluation.export.plain_graph import STEP, PlainGraph
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.inference.network import of_each
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import load_weights
from mtf_imaging.training.task import Task, prediction, task_inputs

_logger = logging.getLogger(__name__)
# A network during tracing: maps an image [..., channels], or a dict of several inputs by name, to its prediction,
# without a batch dimension.
Network = Callable[[Any], Any]


class TrainedNetworks(tf.Module):
    """The networks of one or several runs for one or several sizes of images.

    Args:
      task: the network that the runs trained.
      sizes: the sizes of images, each with the voxels along the spatial dimensions.
      model_dirs: the folders of the runs.
      checkpoint: "last" or "best".
      dtype: the dtype of images and activations.
      progress: whether to show progress on stderr.
      averages: whether to use the averages of the weights, if the checkpoint has them.

    Attributes:
      image_dims: the dimension names of an image; a dict by name if there are several inputs.
      weights: for each run, its variables by name, and its step.
      steps: the step of each run's checkpoint.
      paths: the path of each run's checkpoint.

    Raises:
      CheckpointError: a run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError: the checkpoint is damaged.
    """

    def __init__(
        self,
        task: Task,
        sizes: Sequence[tuple[int, ...]],
        model_dirs: Sequence[Path],
        checkpoint: str,
        dtype: str,
        progress: bool = False,
        averages: bool = True,
    ) -> None:
        super().__init__(name="networks")
        folders = [weights_folder(model_dir, checkpoint) for model_dir in model_dirs]
        self._graphs: dict[tuple[int, ...], PlainGraph] = {}
        program = None
        with building("building the network", progress=progress):
            for own in sizes:
                inputs = task_inputs(task, 1, own, dtype=dtype, labels=False)
                dims = {key: tuple(name for name, _ in parse_shape(shape)[1:]) for key, (shape, _) in inputs.items()}
                self.image_dims: Any = dims if len(dims) > 1 else next(iter(dims.values()))
                # On the CPU, so that the graph does not depend on the devices of this host.
                options: dict[str, Any] = {"mesh_impl": "stacked", "devices": ["CPU:0"], "updates": "none"}
                program = Program(prediction(task), inputs, variables=program, **options)
                self._graphs[own] = PlainGraph(program)
        assert program is not None
        self.weights: list[dict[str, tf.Variable]] = []
        paths = []
        for folder in folders:
            paths.append(path := load_weights(folder, program, averages))
            _logger.info("restored the weights of step %d from %s", int(program.step), path)
            with tf.device("CPU:0"):
                own = {name: tf.Variable(variable, name=name) for name, variable in program.variables.items()}
                own[STEP] = tf.Variable(program.step, trainable=False, name=STEP)
            self.weights.append(own)
        self.paths = tuple(paths)
        self.steps = [int(own[STEP]) for own in self.weights]
        if checkpoint == "last" and len({*self.steps}) > 1:
            numbers = ", ".join(f"{Path(run).name}: {step}" for run, step in zip(model_dirs, self.steps, strict=True))
            _logger.warning("the runs have made different numbers of steps (%s); some may still be training", numbers)

    def image(self, sizes: tuple[int, ...]) -> Any:
        """Returns the shape and dtype of an image of one of the sizes, `[..., channels]`; a dict of several inputs."""
        return of_each(_without_batch, self._graphs[sizes].image)

    def results(self, sizes: tuple[int, ...]) -> Any:
        """Returns the shape and dtype of the prediction for such an image; a dict if it has several outputs."""
        return tf.nest.map_structure(_without_batch, self._graphs[sizes].results)

    def result_dims(self, sizes: tuple[int, ...]) -> Any:
        """Returns the dimension names of the prediction, in the structure of `results`."""
        return tf.nest.map_structure(lambda shape: tuple(shape.dimension_names[1:]), self._graphs[sizes].shapes)

    def check_probabilities(self, classes: int, what: str) -> None:
        """Checks that the network returns one probability per class for each voxel or pixel.

        Args:
          classes: the number of classes.
          what: the noun for a class in the message.

        Raises:
          ShapeError: it returns something else.
        """
        for sizes in self._graphs:
            results, expected = self.results(sizes), [*sizes, classes]
            if not isinstance(results, tf.TensorSpec) or results.shape != expected:
                found = f"shape {list(results.shape)}" if isinstance(results, tf.TensorSpec) else ", ".join(results)
                raise ShapeError(
                    f"the network returned probabilities of {found} for an image of {list(sizes)}; {classes} "
                    f"{what} need {expected}. Fix: return one probability for each of them at every voxel."
                )

    def of_size(self, sizes: tuple[int, ...]) -> list[Network]:
        """Returns the network of each run for images of one of the sizes."""
        graph = self._graphs[sizes]

        def portable(weights: dict[str, tf.Variable]) -> Network:
            def run(image: Any) -> Any:
                batch = of_each(lambda x, spec: tf.cast(x, spec.dtype)[tf.newaxis], image, graph.image)
                with tf.control_dependencies(None):  # under those of `_mean`, TensorFlow imports no graph
                    results = graph.with_constants(batch, weights)
                return tf.nest.map_structure(lambda tensor: tensor[0], results)

            return run

        def network(weights: dict[str, tf.Variable]) -> Network:
            # As a separate function, so that networks run one after the other.
            @tf.function(autograph=False)
            def run(image: Any) -> Any:
                batch = of_each(_as_batch, image, graph.image)
                return tf.nest.map_structure(lambda tensor: tensor[0], graph(batch, weights))

            return run

        return [portable(weights) if is_portable() else network(weights) for weights in self.weights]


def average_networks(networks: Sequence[Network]) -> Network:
    """Returns a network that averages several networks in the order of `inference.averages.ensemble`."""
    if len(networks) == 1:
        return networks[0]
    return lambda image: _mean([lambda network=network: network(image) for network in networks])


def average_flips(network: Network, axes: Sequence[int]) -> Network:
    """Returns a network that averages over flips of the image in the order of `inference.averages.flipped`.

    Args:
      network: the network.
      axes: the axes to flip.
    """
    if not axes:
        return network
    subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]

    def average(image: tf.Tensor) -> tf.Tensor:
        return _mean([lambda subset=subset: _flip(network(_flip(image, subset)), subset) for subset in subsets])

    return average


def _flip(x: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
    return tf.reverse(x, axes) if axes else x


def _mean(computations: Sequence[Callable[[], Any]]) -> Any:
    """Returns the mean of predictions in float32 or a wider type, computed one after the other to save memory."""
    total = None
    for compute in computations:
        with tf.control_dependencies([] if total is None else tf.nest.flatten(total)):
            result = of_each(at_least_float32, compute())
            total = result if total is None else of_each(operator.add, total, result)
    return of_each(lambda own: own / divisor(len(computations), own.dtype), total)


def at_least_float32(x: tf.Tensor) -> tf.Tensor:
    """Converts a floating-point tensor to float32 or a wider type."""
    return x if x.dtype in (tf.float32, tf.float64) else tf.cast(x, tf.float32)


def _as_batch(image: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    return tf.ensure_shape(tf.cast(image, spec.dtype)[tf.newaxis], spec.shape)


def _without_batch(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec(spec.shape[1:], spec.dtype)
