"""Trained networks as functions of an image, under any layout."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout, format_rules
from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.engine.program.program import Program
from mtf_imaging.engine.turns.store import as_tensor
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.files.scratch import is_own_file
from mtf_imaging.inference.network import (
    Consume,
    Network,
    Slices,
    by_size,
    image_sizes,
    of_each,
    one_batch,
    prepared,
    whole_shape,
)  # fmt: skip
from mtf_imaging.inference.progress import passed
from mtf_imaging.inference.sliding import sliding
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.training.activations import Activations, TrainedNetwork
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import load_weights
from mtf_imaging.training.task import Task, prediction, task_inputs

BUILDING = "building the network"
_PLANES = 8  # windows of one slice that a processor computes together
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkBuilder:
    """How the network of a task is built.

    Attributes:
      task: a `Task`.
      dtype: dtype of images and activations.
      layout: the layout. It may differ from the layout in training. A rule for `batch` is dropped if the batch size is
        1, except with a window: then each processor along `batch` computes different windows.
      mesh_impl: the mesh implementation, as in `Program`.
      progress: whether to show progress on stderr while the network is built.
      window: the window that slides over images of any size; then only the program for the window is built. None
        computes a whole image at once.
      batch_size: the number of images that are computed together, without a window.
      change: a function that changes the network of an image, or of a window.
    """

    task: Task
    dtype: str = "float32"
    layout: Layout = ONE_PROCESSOR
    mesh_impl: str = "auto"
    progress: bool = False
    window: SlidingWindow | None = None
    batch_size: int = 1
    change: Callable[[Network], Network] = lambda network: network

    def network_of(self, program: Program, sizes: Sequence[int]) -> Network:
        """Builds a network with the current weights of another program, such as that of the training.

        Args:
          program: the program that holds the variables.
          sizes: voxels along each spatial dimension; not used with a window.
        """
        with building(BUILDING, progress=self.progress):
            own = self.program(sizes, variables=program)
        return self.as_network(own)

    def program(self, sizes: Sequence[int], variables: Program | None = None) -> Program:
        """Builds the program for a batch of images, or for one window on each processor along `batch`.

        Of windows that have one voxel along an axis, each processor computes several, which takes less time.
        """
        layout, batch_size = self.layout, self.batch_size
        if self.window is not None:
            sizes, batch_size = self.window.size, layout.slices_per_dimension.get("batch", 1)
            batch_size *= _PLANES if 1 in sizes else 1
        elif batch_size == 1:
            layout = for_one_volume(layout)
        inputs = task_inputs(self.task, batch_size, sizes, dtype=self.dtype, labels=False)
        return Program(prediction(self.task), inputs, layout=layout, mesh_impl=self.mesh_impl, variables=variables)

    def as_network(self, program: Program) -> Network:
        """Returns the network of a program that `program` has built."""
        network = self.change(network_of_slices(program_slices(program, self.progress)))
        return network if self.window is None else sliding(network, self.window, self.progress)


def program_slices(program: Program, progress: bool = False) -> Slices:
    """Returns the slices of the images that a program takes.

    Args:
      program: a program whose inputs and results have `batch` as the first dimension.
      progress: whether to show progress on stderr while the network is built, and while turns compute an image.
    """
    names, outputs = tuple(program.input_specs), program.output_regions()
    inputs: Any = {name: program.regions(name) for name in names} if len(names) > 1 else program.regions(names[0])
    shown = iter([progress])

    def first_shown() -> contextlib.AbstractContextManager:
        return building(BUILDING, progress=next(shown, False))  # TensorFlow optimizes the graph in the first call

    def by_name(images: Any) -> dict[str, Any]:
        return of_each(_without_copy, images if isinstance(images, Mapping) else {names[0]: images})

    def predict(images: Any) -> Any:
        with first_shown():
            return of_each(np.asarray, program.call_slices(**by_name(images)))

    def parts(image: Any, consume: Consume, first: int) -> None:
        given = by_name(one_batch(image))
        with first_shown(), passed(None, "rows", "row", progress, total=image_sizes(given)[0]) as bar:

            def consume_batch(rows: slice, values: np.ndarray) -> None:
                consume(rows, values[0])
                bar.update(rows.stop - rows.start)

            program.stream_slices(consume_batch, **given)

    def of_image(regions: Sequence[Any]) -> list[Any]:
        return [tuple(region[1:]) for region in regions]

    batch = [region[0] for region in program.regions(names[0])]
    group = groups.current() if len(batch) > 1 else groups.ALONE
    slices = Slices(group, of_each(of_image, inputs), of_each(of_image, outputs), predict, batch)
    return slices.replace(parts=parts) if program.streams and slices.batch_size == 1 else slices


def _without_copy(images: np.ndarray) -> np.ndarray | tf.Tensor:
    """Returns an array in a file of its own as a tensor in its memory, which no call changes."""
    return as_tensor(images) if is_own_file(images) else images


def network_of_slices(slices: Slices) -> Network:
    """Returns a network for images of one size."""
    inputs = slices.inputs.values() if isinstance(slices.inputs, Mapping) else [slices.inputs]
    own = max(map(whole_shape, inputs), key=len)[:-1]

    def of_sizes(sizes: tuple[int, ...]) -> Slices:
        if sizes != own:
            raise ShapeError(f"the network takes images of {[*own]} voxels, not {[*sizes]}. Fix: resample the image.")
        return slices

    return Network(of_sizes)


def predictor(
    *,
    task: Task,
    sizes: Sequence[int],
    model_dir: str | Path,
    checkpoint: str = "last",
    dtype: str = "float32",
    layout: Layout | str = "",
    mesh_shape: str = "",
    mesh_impl: str = "auto",
    progress: bool = False,
    other_sizes: Sequence[Sequence[int]] | None = (),
    window: SlidingWindow | None = None,
    averages: bool = True,
) -> TrainedNetwork:
    """Builds a network that predicts one volume at a time, with the weights of a checkpoint.

    Args:
      task: a `Task`.
      sizes: voxels along x, y and z.
      model_dir: folder of the checkpoints.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      dtype: dtype of images and activations.
      layout: the layout, as in `Program`. It may differ from the layout in training. A rule for `batch` is dropped,
          except with a window: then each processor along `batch` computes different windows.
      mesh_shape: the mesh of processors, as in `Program`.
      mesh_impl: the mesh implementation, as in `Program`.
      progress: whether to show progress on stderr while the network is built.
      other_sizes: further sizes of images, or None for any sizes. For each of them, a program with the same weights is
        built when an image of this size first occurs.
      window: the window that slides over images of any size; then only the program for the window is built. None
          computes a whole image at once.
      averages: whether to use the averages of the weights, if the checkpoint has them.

    Returns:
      A function that maps an image, array [x, y, z, channels], to probabilities, array [x, y, z, classes], or to the
      arrays of another prediction; see `inference.network.Prediction`. If the network has several inputs, an image is a
      dict of arrays by name. If several processes have joined, its method
      `slices` maps the slice of an image that this process computes; see `inference.network.Network`. Its method
      `activations` computes activations of the network, whose names are in `activation_names`; see
      `training.activations`.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: the window is larger than an image, or the checkpoint is damaged.
    """
    settings = NetworkBuilder(
        task=task,
        dtype=dtype,
        layout=Layout.of(layout, mesh_shape),
        mesh_impl=mesh_impl,
        progress=progress,
        window=window,
    )
    (network,), program = TrainedRuns([model_dir], checkpoint, averages).networks(settings, sizes, other_sizes)

    def activations(own: tuple[int, ...]) -> Activations:
        if window is not None:
            raise ConfigError(
                f"activations: the network computes windows of {[*window.size]} voxels one after the other, so an "
                "image has no activations. Fix: build the predictor without a window, for images of this size.",
                ["sliding_window"],
            )
        is_known = other_sizes is None or own in {tuple(each) for each in other_sizes}
        inputs = task_inputs(task, 1, own if is_known else sizes, dtype=dtype, labels=False)
        return Activations(prediction(task), inputs, program, mesh_impl)

    return TrainedNetwork(network.of_sizes, tuple(sizes), functools.cache(activations))


@dataclasses.dataclass(frozen=True)
class TrainedRuns:
    """One or more runs of the same task, such as the folds of a cross-validation.

    Attributes:
      folders: the folders of the runs.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      averages: whether to use the averages of the weights, if the checkpoint has them.
      on_restored: a function that is called with each folder and the path of its checkpoint, once it is restored.
    """

    folders: Sequence[str | Path]
    checkpoint: str = "last"
    averages: bool = True
    on_restored: Callable[[str | Path, str], object] = lambda folder, path: None

    def networks(
        self, settings: NetworkBuilder, sizes: Sequence[int], other_sizes: Sequence[Sequence[int]] | None = ()
    ) -> tuple[list[Network], Program]:
        """Builds a network for each run.

        All networks share one program, so the devices need memory for one network, and the graph is built only once.
        The weights of all runs are read once and stay in host memory; they are small compared with the activations, and
        a run that is still training does not change them. A network copies its weights to the devices if another one
        was called before it.

        Args:
          settings: how the network is built.
          sizes, other_sizes: the same as in `predictor`.

        Returns:
          A network for each run, which must not be called at the same time, and their program.

        Raises:
          CheckpointError: a run has no checkpoint, or the checkpoint belongs to another network.
          ConfigError: the window is larger than an image, or the checkpoint is damaged.
        """
        if settings.window is not None:
            for image in [sizes, *(other_sizes or ())]:
                settings.window.check(image)
        checkpoints = [weights_folder(folder, self.checkpoint) for folder in self.folders]
        with building(BUILDING, progress=settings.progress):
            program = settings.program(sizes)
        weights = _Weights(program)
        for folder, checkpoint in zip(self.folders, checkpoints, strict=True):
            path = load_weights(checkpoint, program, self.averages)
            self.on_restored(folder, path)
            _logger.info("restored the weights of step %d from %s", int(program.step), path)
            if len(checkpoints) > 1:
                weights.keep()
        network = settings.as_network(program)
        if settings.window is None and (other_sizes is None or other_sizes):
            network = _of_several_sizes(network, settings, program, tuple(sizes), other_sizes)
        if len(checkpoints) == 1:
            return [network], program
        steps = [int(values[0]) for values in weights.kept]
        if self.checkpoint == "last" and len(set(steps)) > 1:
            pairs = zip(self.folders, steps, strict=True)
            numbers = ", ".join(f"{Path(folder).name}: {step}" for folder, step in pairs)
            _logger.warning("the runs have made different numbers of steps (%s); some may still be training", numbers)
        return [
            prepared(functools.partial(weights.use, number), network) for number in range(len(checkpoints))
        ], program


def _of_several_sizes(
    first: Network,
    settings: NetworkBuilder,
    program: Program,
    sizes: tuple[int, ...],
    other_sizes: Sequence[Sequence[int]] | None,
) -> Network:
    """Returns a network that builds another program when an image of another size first occurs."""
    others = None if other_sizes is None else {tuple(each) for each in other_sizes}

    def build(own: tuple[int, ...]) -> Network:
        if own == sizes or (others is not None and own not in others):
            return first  # refuses images of unknown sizes
        return settings.network_of(program, own)

    return by_size(build)


class _Weights:
    """Several sets of weights for one program in host memory; the variables of the program hold one of them.

    Args:
      program: the program.

    Attributes:
      kept: the values of the step and the variables, for each set.
    """

    def __init__(self, program: Program) -> None:
        self._variables = [program.step, *program.variables.values()]
        self.kept: list[list[np.ndarray]] = []
        self._current = -1

    def keep(self) -> None:
        """Adds the current weights of the program as another set."""
        self._current = len(self.kept)
        self.kept.append([variable.numpy() for variable in self._variables])

    def use(self, number: int) -> None:
        """Gives the program the weights of one set."""
        if self._current != number:
            for variable, value in zip(self._variables, self.kept[number], strict=True):
                variable.assign(value)
            self._current = number


def for_one_volume(layout: Layout) -> Layout:
    """Removes the rule for `batch` from a layout, because one volume has no batch to split.

    The mesh dimension of the rule is removed, too, unless another rule uses it.

    >>> str(for_one_volume(Layout.parse("rows:16,cols:16,cores:2", "x:rows,y:cols,batch:cores")))
    'x:rows,y:cols on rows:16,cols:16'
    """
    kept = layout.restrict(lambda dim: dim != "batch")
    if kept != layout:
        _logger.info(
            "'%s' is dropped from the layout, because volumes are predicted one at a time; "
            "the layout is now '%s' on '%s'",
            format_rules(rule for rule in layout.rules if rule not in kept.rules),
            kept.rules_string,
            kept.mesh_string,
        )
    return kept
