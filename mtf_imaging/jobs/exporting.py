"""Exports a trained network as a SavedModel, which TensorFlow runs without this package."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mtf_imaging
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES, PHOTO_AXES
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.averaging.flips import check_flips
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.files.new_folder import check_new_folder
from mtf_imaging.files.run_folder import FACTS, check_no_run, weights_folder
from mtf_imaging.jobs.ensembles import ensemble_runs
from mtf_imaging.kinds.facts import Facts, read_facts
from mtf_imaging.kinds.inference import ONE_SCALE
from mtf_imaging.kinds.kind import ARRAYS, VOLUMES
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.objects.description import object_description_from_fields
from mtf_imaging.kinds.photos.description import photo_description_from_fields
from mtf_imaging.kinds.settings import DTYPES, Resolution, Spacing, check_choice
from mtf_imaging.kinds.volumes.trained import description_of_run, sampling_of_run

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.card import ModelCard
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.training.task import Task

PHOTOS, OBJECTS = "photos", "objects"
_CLEANUP = "The postprocessing of predict (largest_liver, lesions_in_liver) is not part of the model."


def export(
    *,
    task: "Task",
    model_dir: str | Path,
    output: str | Path,
    checkpoint: str = "last",
    ensemble: bool = False,
    resolution: Resolution | None = None,
    spacing: Spacing | None = None,
    window: Window = DEFAULT_WINDOW,
    dtype: str = "float32",
    cleanup: Cleanup = AS_FOUND,
    flips: Sequence[str] = (),
    scales: Sequence[float] = ONE_SCALE,
    progress: bool = True,
) -> "ModelCard":
    """Writes a trained network and its preprocessing as a SavedModel, which TensorFlow runs without this package.

    The model computes what `predict` computes on one processor. Its folder also contains `input.json` and `README.md`,
    which state the inputs and outputs.

    Args:
      task: the network that the run trained.
      model_dir: the folder of the run.
      output: the folder to write, which must be new or empty.
      checkpoint: "last", or "best" for the checkpoint with the best score on held-out cases.
      ensemble: whether `model_dir` is the output folder of `cross_validate`. The model then contains the networks of
        all folds, and averages their probabilities.
      resolution: the size of the network's input; None for that of the run. For photos and objects, several sizes
        separated by "|" give a signature each.
      spacing: voxel size of the network's input in mm; None for the spacing of the run.
      window: intensity window (low, high) in HU, the same as in training, for LiTS.
      dtype: the dtype of activations.
      cleanup: the postprocessing of `predict`, which the model does not contain; its card then says so.
      flips: axes to flip. Probabilities are averaged over all combinations of flips.
      scales: must be (1.0,), because the model does not resize photos.
      progress: whether to show progress on stderr.

    Returns:
      The card of the model: its signatures, and what their inputs must be.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError: a setting is invalid, or the model cannot contain it.
      DataError: the output exists, or the facts of the run are damaged.
    """
    check_new_folder(output)
    check_no_run(output)
    check_choice("dtype", dtype, DTYPES)
    runs = ensemble_runs(model_dir, checkpoint) if ensemble else [Path(model_dir)]
    weights_folder(runs[0], checkpoint)
    facts = read_facts(runs[0])
    kind = _kind(facts)
    own = _Settings(task, tuple(runs), checkpoint, dtype, resolution, spacing, window, tuple(flips), progress)
    _check(kind, own, scales)
    networks, model = _MAKERS[kind](own, facts)

    from mtf_imaging.evaluation.export.card import ModelCard  # these import TensorFlow
    from mtf_imaging.evaluation.export.saving import save_model

    card = ModelCard(
        kind=kind,
        source=str(model_dir),
        runs=tuple((run.name, step) for run, step in zip(runs, networks.steps, strict=True)),
        checkpoint=checkpoint,
        dtype=dtype,
        flips=own.flips,
        facts=model.facts(),
        notes=(*model.notes(), *([] if cleanup == AS_FOUND else [_CLEANUP])),
        signatures=tuple(model.signatures()),
        version=mtf_imaging.__version__,
    )
    save_model(output, networks, card, progress)
    return card


@dataclasses.dataclass(frozen=True)
class _Settings:
    """The arguments of `export` that all kinds of images have."""

    task: "Task"
    runs: tuple[Path, ...]
    checkpoint: str
    dtype: str
    resolution: Resolution | None
    spacing: Spacing | None
    window: Window
    flips: tuple[str, ...]
    progress: bool

    def networks(self, sizes: Sequence[tuple[int, ...]], description: Any) -> "TrainedNetworks":
        """Builds the networks for images of some sizes."""
        from mtf_imaging.evaluation.export.networks import TrainedNetworks

        task = task_for(self.task, description)
        return TrainedNetworks(task, sizes, self.runs, self.checkpoint, self.dtype, self.progress)

    def sizes(self, facts: Facts, names: Sequence[str] | None = None) -> tuple[tuple[int, ...], ...]:
        """Returns the sizes of the network's input, in ascending order.

        Args:
          facts: the facts of the run.
          names: the names of the axes; None for those of the run.
        """
        resolution = facts.resolution if self.resolution is None else self.resolution
        if names is None:
            names = facts.axes
        if isinstance(resolution, str | int):
            return parse_grids(resolution, len(names), names)
        return (tuple(int(size) for size in resolution),)


def _volumes(own: _Settings, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.kinds.volumes.export.signatures import VolumeSignatures

    sampling = sampling_of_run(own.runs[0], own.resolution, own.spacing)
    description = description_of_run(own.runs[0])
    networks = own.networks(sampling.grids, description)
    return networks, VolumeSignatures(networks, sampling, description, own.window, own.flips)


def _photos(own: _Settings, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.kinds.photos.signatures import PhotoSignatures

    assert facts is not None
    description = photo_description_from_fields(facts.description, str(own.runs[0] / FACTS))
    sizes = own.sizes(facts, PHOTO_AXES)
    networks = own.networks(sizes, description)
    return networks, PhotoSignatures(networks, sizes, description, own.flips)


def _objects(own: _Settings, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.kinds.objects.signatures import ObjectSignatures

    assert facts is not None
    description = object_description_from_fields(facts.description, str(own.runs[0] / FACTS))
    sizes = own.sizes(facts, PHOTO_AXES)
    networks = own.networks(sizes, description)
    return networks, ObjectSignatures(networks, sizes, description)


def _arrays(own: _Settings, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.kinds.arrays.signatures import ArraySignatures

    assert facts is not None
    sizes = own.sizes(facts)
    networks = own.networks(sizes, None)
    return networks, ArraySignatures(networks, sizes)


_MAKERS = {VOLUMES: _volumes, PHOTOS: _photos, OBJECTS: _objects, ARRAYS: _arrays}


def _kind(facts: Facts | None) -> str:
    """Returns the kind of the images of a run; without facts, they are volumes, as for `predict`."""
    return VOLUMES if facts is None else facts.kind


def _check(kind: str, own: _Settings, scales: Sequence[float]) -> None:
    """Raises ConfigError if a setting has no effect on the images, or cannot be part of a model."""
    if kind == PHOTOS and tuple(scales) != ONE_SCALE:
        raise ConfigError(
            f"scales = {tuple(scales)!r}: an exported model computes photos only at their own size. "
            "Fix: use scales = (1.0,).",
            ["scales"],
        )
    if kind == VOLUMES:
        check_flips(own.flips, axis_names=AXIS_NAMES)
    elif kind == PHOTOS:
        check_flips(own.flips, axis_names=PHOTO_AXES)
    elif own.flips:
        raise ConfigError(
            f"flips = {own.flips!r} has no effect: only the probabilities of volumes and photos are averaged. "
            "Fix: leave flips out.",
            ["flips"],
        )
    if kind != VOLUMES and own.spacing is not None:
        raise ConfigError(
            f"spacing = {own.spacing!r} has no effect: images of this run have no voxel size. Fix: leave spacing out.",
            ["spacing"],
        )
    if kind == OBJECTS and len(own.runs) > 1:
        raise ConfigError(
            "ensemble: detections of several networks cannot be averaged, because their boxes differ. Fix: give "
            "the folder of one run as model_dir, without ensemble.",
            ["ensemble", "model_dir"],
        )
