"""Trained networks as functions of an image, under any layout."""

import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.errors import ConfigError
from mtf_imaging.files.run_folder import weights_folder
from mtf_imaging.layout import ONE_PROCESSOR, Layout, format_rules
from mtf_imaging.program.program import Program
from mtf_imaging.training.activations import Activations, TrainedNetwork
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import load_weights
from mtf_imaging.training.slices import (
    BUILDING,
    ImageNetwork,
    NetworkBySize,
    PreparedNetwork,
    ProgramBatch,
    ProgramNetwork,
)
from mtf_imaging.training.sliding_window.network import SlidingNetwork
from mtf_imaging.training.sliding_window.windows import SlidingWindow
from mtf_imaging.training.task import Task, task_inputs

_logger = logging.getLogger(__name__)


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
      arrays of another prediction; see `training.evaluation.Prediction`. If several processes have joined, its method
      `slices` maps the slice of an image that this process computes; see `training.slices.ImageNetwork`. Its method
      `activations` computes activations of the network, whose names are in `activation_names`; see
      `training.activations`.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: the window is larger than an image, or the checkpoint is damaged.
    """
    (predict,), program = _predictors(
        task=task,
        sizes=sizes,
        model_dirs=[model_dir],
        checkpoint=checkpoint,
        dtype=dtype,
        layout=Layout.of(layout, mesh_shape),
        mesh_impl=mesh_impl,
        progress=progress,
        other_sizes=other_sizes,
        window=window,
        averages=averages,
        batch_size=1,
    )

    def activations(own: tuple[int, ...]) -> Activations:
        if window is not None:
            raise ConfigError(
                f"activations: the network computes windows of {[*window.size]} voxels one after the other, so an "
                "image has no activations. Fix: build the predictor without a window, for images of this size.",
                ["sliding_window"],
            )
        is_known = other_sizes is None or own in {tuple(each) for each in other_sizes}
        inputs = task_inputs(task, 1, own if is_known else sizes, dtype=dtype, labels=False)
        return Activations(task.predict, inputs, program, mesh_impl)

    return TrainedNetwork(predict, tuple(sizes), activations)


def predictors(
    *,
    task: Task,
    sizes: Sequence[int],
    model_dirs: Sequence[str | Path],
    checkpoint: str = "last",
    dtype: str = "float32",
    layout: Layout = ONE_PROCESSOR,
    mesh_impl: str = "auto",
    progress: bool = False,
    other_sizes: Sequence[Sequence[int]] | None = (),
    window: SlidingWindow | None = None,
    averages: bool = True,
    batch_size: int = 1,
    on_restored: Callable[[str | Path, str], object] | None = None,
) -> list[ImageNetwork]:
    """Builds one network for several runs of the same task, such as the folds of a cross-validation.

    All functions share one program, so the devices need memory for one network, and the graph is built only once. The
    weights of all runs are read once and stay in host memory; they are small compared with the activations, and a run
    that is still training does not change them. A function copies its weights to the devices if another function was
    called before it.

    Args:
      task, sizes, checkpoint, dtype, layout, mesh_impl, progress, other_sizes, window, averages: the same as in
        `predictor`.
      model_dirs: the folders of one or more runs.
      batch_size: the number of images that the method `predict_batch` of a network takes. A rule for `batch` is dropped
          only if `batch_size` is 1.
      on_restored: a function that is called with each folder and the path of its checkpoint, once it is restored.

    Returns:
      A function for each run, as `predictor` returns it. They must not be called at the same time.

    Raises:
      CheckpointError: a run has no checkpoint, or the checkpoint belongs to another network.
      ConfigError: the window is larger than an image, or the checkpoint is damaged.
    """
    return _predictors(
        task,
        sizes,
        model_dirs,
        checkpoint,
        dtype,
        layout,
        mesh_impl,
        progress,
        other_sizes,
        window,
        averages,
        batch_size,
        on_restored,
    )[0]


def _predictors(
    task: Task,
    sizes: Sequence[int],
    model_dirs: Sequence[str | Path],
    checkpoint: str,
    dtype: str,
    layout: Layout,
    mesh_impl: str,
    progress: bool,
    other_sizes: Sequence[Sequence[int]] | None,
    window: SlidingWindow | None,
    averages: bool,
    batch_size: int,
    on_restored: Callable[[str | Path, str], object] | None = None,
) -> tuple[list[ImageNetwork], Program]:
    """Does the same as `predictors`, and returns the program as well."""
    if window is not None:
        for image in [sizes, *(other_sizes or ())]:
            window.check(image)
    folders = [weights_folder(model_dir, checkpoint) for model_dir in model_dirs]
    with building(BUILDING, progress=progress):
        program = _program(task, sizes, dtype, layout, mesh_impl, window, batch_size)
    weights = _Weights(program)
    for model_dir, folder in zip(model_dirs, folders, strict=True):
        path = load_weights(folder, program, averages)
        if on_restored is not None:
            on_restored(model_dir, path)
        _logger.info("restored the weights of step %d from %s", int(program.step), path)
        if len(folders) > 1:
            weights.keep()
    predict = _network(program, window, progress)
    if window is None and (other_sizes is None or other_sizes):
        others = None if other_sizes is None else {tuple(each) for each in other_sizes}
        options: dict[str, Any] = {"task": task, "dtype": dtype, "layout": layout, "mesh_impl": mesh_impl}
        options["batch_size"] = batch_size
        first = predict

        def build(own: tuple[int, ...]) -> ImageNetwork:
            if own == tuple(sizes) or (others is not None and own not in others):
                return first  # refuses images of unknown sizes
            return predictor_of(program, sizes=own, progress=progress, **options)

        predict = NetworkBySize(build)
    if len(folders) == 1:
        return [predict], program
    steps = [int(values[0]) for values in weights.kept]
    if checkpoint == "last" and len(set(steps)) > 1:
        numbers = ", ".join(f"{Path(folder).name}: {step}" for folder, step in zip(model_dirs, steps, strict=True))
        _logger.warning("the runs have made different numbers of steps (%s); some may still be training", numbers)
    return [weights.before(number, predict) for number in range(len(folders))], program


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

    def before(self, number: int, network: ImageNetwork) -> ImageNetwork:
        """Returns a network that gives the program the weights of one set before it predicts."""
        return PreparedNetwork(functools.partial(self._use, number), network)

    def _use(self, number: int) -> None:
        if self._current != number:
            for variable, value in zip(self._variables, self.kept[number], strict=True):
                variable.assign(value)
            self._current = number


def predictor_of(
    program: Program,
    *,
    task: Task,
    sizes: Sequence[int],
    dtype: str = "float32",
    layout: Layout = ONE_PROCESSOR,
    mesh_impl: str = "auto",
    progress: bool = False,
    window: SlidingWindow | None = None,
    batch_size: int = 1,
) -> ImageNetwork:
    """Builds a network that predicts one volume at a time, with the current weights of a training program.

    Args:
      program: the `Program` that holds the variables.
      task: a `Task`.
      sizes: voxels along x, y and z.
      dtype: dtype of images and activations.
      layout: the layout. A rule for `batch` is dropped, except with a window; see `predictor`.
      mesh_impl: the mesh implementation, as in `Program`.
      progress: whether to show progress on stderr while the network is built.
      window: the window that slides over images of any size; None to compute a whole image at once. The sizes are not
        used with a window.
      batch_size: the number of images that the method `predict_batch` takes; see `predictors`.
    """
    with building(BUILDING, progress=progress):
        network = _program(task, sizes, dtype, layout, mesh_impl, window, batch_size, variables=program)
    return _network(network, window, progress)


def _program(
    task: Task,
    sizes: Sequence[int],
    dtype: str,
    layout: Layout,
    mesh_impl: str,
    window: SlidingWindow | None,
    batch_size: int,
    variables: Program | None = None,
) -> Program:
    """Builds the program for a batch of images, or for one window on each processor along `batch`."""
    if window is None:
        layout = for_one_volume(layout) if batch_size == 1 else layout
    else:
        sizes, batch_size = window.size, layout.slices_per_dimension.get("batch", 1)
    inputs = task_inputs(task, batch_size, sizes, dtype=dtype, labels=False)
    return Program(task.predict, inputs, layout=layout, mesh_impl=mesh_impl, variables=variables)


def _network(program: Program, window: SlidingWindow | None, progress: bool) -> ImageNetwork:
    if window is None:
        return ProgramNetwork(program, progress)
    return SlidingNetwork(ProgramBatch(program, progress), window)


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
