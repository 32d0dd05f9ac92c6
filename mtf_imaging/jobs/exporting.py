"""Exports a trained network as a SavedModel, which TensorFlow runs without this package."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mtf_imaging
from mtf_imaging.data.objects.description import object_description_from_fields
from mtf_imaging.data.photos.description import photo_description_from_fields
from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES, PHOTO_AXES
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.segment.cleanup import AS_FOUND
from mtf_imaging.evaluation.segment.flips import check_flips
from mtf_imaging.files.new_folder import check_new_folder
from mtf_imaging.files.run_folder import FACTS, check_no_run
from mtf_imaging.jobs.ensembles import trained_runs
from mtf_imaging.jobs.network import AnyDescription, task_for
from mtf_imaging.jobs.run import Facts, description_of_run, read_facts, sampling_of_run
from mtf_imaging.jobs.subjects.folders import OBJECTS, PHOTOS, VOLUMES
from mtf_imaging.settings.inference import ExportSettings
from mtf_imaging.settings.setting import check_choice, takes
from mtf_imaging.settings.values import DTYPES, ONE_SCALE

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.card import ModelCard
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind

ARRAYS = "arrays"  # the kind of images of a custom data set
_CLEANUP = "The postprocessing of predict (largest_liver, lesions_in_liver) is not part of the model."


@takes(ExportSettings)
def export(own: ExportSettings) -> "ModelCard":
    """Writes a trained network and its preprocessing as a SavedModel, which TensorFlow runs without this package.

    The model computes what `predict` computes on one processor. Its folder also contains `input.json` and `README.md`,
    which state the inputs and outputs. With `ensemble`, it contains the networks of all folds. For photos and objects,
    several sizes separated by "|" in `resolution` give a signature each. The model does not contain the postprocessing
    of `cleanup`; its card then says so.

    Returns:
      The card of the model: its signatures, and what their inputs must be.

    Raises:
      CheckpointError: the run has no such checkpoint, or the checkpoint belongs to another network.
      ConfigError: a setting is invalid, or the model cannot contain it.
      DataError: the output exists, or the facts of the run are damaged.
    """
    check_new_folder(own.output)
    check_no_run(own.output)
    check_choice("dtype", own.dtype, DTYPES)
    runs = trained_runs(own)
    facts = read_facts(runs[0])
    kind = _kind(facts)
    run = _Run(own, tuple(runs), tuple(own.flips))
    _check(kind, run)
    networks, model = _MAKERS[kind](run, facts)

    from mtf_imaging.evaluation.export.card import ModelCard  # these import TensorFlow
    from mtf_imaging.evaluation.export.saving import save_model

    card = ModelCard(
        kind=kind,
        source=str(own.model_dir),
        runs=tuple((run.name, step) for run, step in zip(runs, networks.steps, strict=True)),
        checkpoint=own.checkpoint,
        dtype=own.dtype,
        flips=run.flips,
        facts=model.facts(),
        notes=(*model.notes(), *([_CLEANUP] if own.cleanup and own.cleanup != AS_FOUND else [])),
        signatures=tuple(model.signatures()),
        version=mtf_imaging.__version__,
    )
    save_model(own.output, networks, card, own.progress)
    return card


class _Run(NamedTuple):
    """The settings of an export, with the runs whose networks are exported."""

    own: ExportSettings
    runs: tuple[Path, ...]
    flips: tuple[str, ...]

    def networks(self, sizes: Sequence[tuple[int, ...]], description: AnyDescription | None) -> "TrainedNetworks":
        """Builds the networks for images of some sizes."""
        from mtf_imaging.evaluation.export.networks import TrainedNetworks

        task = task_for(self.own.task, description)
        return TrainedNetworks(task, sizes, self.runs, self.own.checkpoint, self.own.dtype, self.own.progress)

    def sizes(self, facts: Facts, names: Sequence[str] | None = None) -> tuple[tuple[int, ...], ...]:
        """Returns the sizes of the network's input, in ascending order.

        Args:
          facts: the facts of the run.
          names: the names of the axes; None for those of the run.
        """
        resolution = facts.resolution if self.own.resolution is None else self.own.resolution
        if names is None:
            names = facts.axes
        if isinstance(resolution, str | int):
            return parse_grids(resolution, len(names), names)
        return (tuple(int(size) for size in resolution),)


def _volumes(run: _Run, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.evaluation.export.volumes import VolumeSignatures

    sampling = sampling_of_run(run.runs[0], run.own.resolution, run.own.spacing)
    description = description_of_run(run.runs[0])
    networks = run.networks(sampling.grids, description)
    return networks, VolumeSignatures(networks, sampling, description, run.own.window, run.flips)


def _photos(run: _Run, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.evaluation.export.photos import PhotoSignatures

    assert facts is not None
    description = photo_description_from_fields(facts.photos, str(run.runs[0] / FACTS))
    sizes = run.sizes(facts, PHOTO_AXES)
    networks = run.networks(sizes, description)
    return networks, PhotoSignatures(networks, sizes, description, run.flips)


def _objects(run: _Run, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.evaluation.export.objects import ObjectSignatures

    assert facts is not None
    description = object_description_from_fields(facts.objects, str(run.runs[0] / FACTS))
    sizes = run.sizes(facts, PHOTO_AXES)
    networks = run.networks(sizes, description)
    return networks, ObjectSignatures(networks, sizes, description)


def _arrays(run: _Run, facts: Facts | None) -> "tuple[TrainedNetworks, ExportedKind]":
    from mtf_imaging.evaluation.export.arrays import ArraySignatures

    assert facts is not None
    sizes = run.sizes(facts)
    networks = run.networks(sizes, None)
    return networks, ArraySignatures(networks, sizes)


_MAKERS = {VOLUMES: _volumes, PHOTOS: _photos, OBJECTS: _objects, ARRAYS: _arrays}


def _kind(facts: Facts | None) -> str:
    """Returns the kind of the images of a run; without facts, they are volumes, as for `predict`."""
    if facts is None:
        return VOLUMES
    if facts.photos is not None:
        return PHOTOS
    if facts.objects is not None:
        return OBJECTS
    return ARRAYS if facts.is_custom else VOLUMES


def _check(kind: str, run: _Run) -> None:
    """Raises ConfigError if a setting has no effect on the images, or cannot be part of a model."""
    if kind == PHOTOS and tuple(run.own.scales) != ONE_SCALE:
        raise ConfigError(
            f"scales = {tuple(run.own.scales)!r}: an exported model computes photos only at their own size. "
            "Fix: use scales = (1.0,).",
            ["scales"],
        )
    if kind == VOLUMES:
        check_flips(run.flips, axis_names=AXIS_NAMES)
    elif kind == PHOTOS:
        check_flips(run.flips, axis_names=PHOTO_AXES)
    elif run.flips:
        raise ConfigError(
            f"flips = {run.flips!r} has no effect: only the probabilities of volumes and photos are averaged. "
            "Fix: leave flips out.",
            ["flips"],
        )
    if kind != VOLUMES and run.own.spacing is not None:
        raise ConfigError(
            f"spacing = {run.own.spacing!r} has no effect: images of this run have no voxel size. "
            "Fix: leave spacing out.",
            ["spacing"],
        )
    if kind == OBJECTS and len(run.runs) > 1:
        raise ConfigError(
            "ensemble: detections of several networks cannot be averaged, because their boxes differ. Fix: give "
            "the folder of one run as model_dir, without ensemble.",
            ["ensemble", "model_dir"],
        )
