"""Functions shared by `evaluate` and `predict`: opening the images of a run and its network in all processes."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.engine.layout import Layout
from mtf_imaging.files.provenance.content import content_digest
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import TrainedRun, trained_run
from mtf_imaging.jobs.processes.devices import check_agreement, joined
from mtf_imaging.jobs.runs.ensembles import trained_runs
from mtf_imaging.kinds.all_kinds import open_subject, with_kinds
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.predicted import PredictedImages
from mtf_imaging.settings.as_text import as_plain, as_text
from mtf_imaging.settings.inference import EvaluateSettings, InferenceSettings, PredictSettings
from mtf_imaging.settings.setting import values_of
from mtf_imaging.settings.step import Devices

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group
    from mtf_imaging.inference.network import Network


# Settings of `Inference` that are no rules: files, and what changes only the speed.
_NO_RULES = ("splits_file", "eval_batch_size", "ensemble", "output_format", "submission")


def open_images(
    own: EvaluateSettings | PredictSettings, input_path: str | Path | None = None
) -> PredictedImages[Any, Any, Any]:
    """Returns the kind of images on which a run was trained, with the settings of a job.

    Args:
      own: the settings.
      input_path: the images to predict; None to evaluate images.

    Raises:
      CheckpointError: the run has no such checkpoint.
      ConfigError: a setting has no effect on these images.
      DataError: the run's facts are damaged.
    """
    return open_subject(trained_runs(own)[0], with_kinds(Inference).of(own), input_path)


@contextlib.contextmanager
def network_of_run(
    subject: PredictedImages[Any, Any, Any],
    own: EvaluateSettings | PredictSettings,
    images: Sequence[Any],
    choose: Callable[[], list[int]] | None = None,
) -> "Iterator[tuple[Group, Network | None, Sequence[Any], tuple[TrainedRun, ...]]]":
    """Builds the trained network in all processes that run the job.

    Args:
      subject: the kind of images.
      own: the job settings.
      images: the images, which all processes must have in the same order.
      choose: a function that process 0 calls to get the numbers of the images to predict; None for all images.

    Yields:
      The processes, the network, the images to predict, and the provenance of the checkpoints that were restored. If
      there are no images, the network is None.
    """
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns  # imported here because of TensorFlow

    task, devices = task_for(own.task, subject.description), own.devices or Devices()
    with joined(devices, own.layout) as group:
        check_agreement(group, own, cases=[image.key for image in images])
        settings = NetworkBuilder(
            task=task,
            dtype=own.dtype,
            layout=Layout.of(own.layout),
            mesh_impl=devices.mesh_impl,
            progress=own.progress and group.is_first,
            batch_size=own.eval_batch_size,
        )
        restored: list[TrainedRun] = []

        def add(run: str | Path, path: str) -> None:
            restored.append(trained_run(run, own.checkpoint, path))

        runs = TrainedRuns(trained_runs(own), own.checkpoint, own.averages, add)
        chosen = images if choose is None else [images[number] for number in group.first(choose)]
        network = subject.network(settings, runs, chosen) if chosen else None
        yield group, network, chosen, tuple(restored)


def newest_runs(own: InferenceSettings) -> tuple[TrainedRun, ...]:
    """Returns the provenance of the checkpoints that a job is about to restore.

    Raises:
      ConfigError, CheckpointError: the same as in `trained_runs`.
      DataError: the `run.json` of a run is damaged.
    """
    return tuple(trained_run(run, own.checkpoint) for run in trained_runs(own))


def provenance(
    own: InferenceSettings,
    runs: tuple[TrainedRun, ...],
    idle: Collection[str] = (),
    cleanup: list[str] | None = None,
) -> Provenance:
    """Returns the provenance of what a job computes with trained networks.

    Args:
      own: the settings of the job.
      runs: the provenance of the networks.
      idle: the settings that have no effect on its images.
      cleanup: the names of the rules that the job applies to labels; None for those of the settings.
    """
    used = {name: value for name, value in result_settings(own).items() if name not in (*_NO_RULES, *idle)}
    if "cleanup" in used and cleanup is not None:
        used["cleanup"] = cleanup
    settings = {name: _as_rule(value, name) for name, value in used.items() if value is not None}
    task = {"task": as_text(own.task), "task_sha256": content_digest(own.task, "task")}
    rules = {**task, "dtype": own.dtype, "averages": bool(own.averages), **settings}
    layout = getattr(own, "layout", None)
    if layout is not None:
        layout = Layout.of(layout)
        layout = {"mesh_shape": layout.mesh_string, "layout": layout.rules_string}
    return Provenance(runs=runs, rules=rules, layout=layout)


def result_settings(own: InferenceSettings) -> dict[str, Any]:
    """Returns the settings of `Inference` by name; files count by their content, with `_sha256` after their names.

    Raises:
      ConfigError, DataError: a file cannot be read.
    """
    values = values_of(with_kinds(Inference), own)
    codes, table = (values.pop(name, None) for name in ("label_codes", "spacing_table"))
    if codes is not None:
        values["label_codes_sha256"] = digest(Path(codes))
    if sizes := read_spacing_table(table).sizes:
        values["spacing_table_sha256"] = content_digest(dict(sizes), "spacing_table")
    return values


def _as_rule(value: object, name: str) -> Any:
    """Returns a setting as a JSON value; its text if there is none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _as_rule(getattr(value, field.name), name) for field in dataclasses.fields(value)}
    return as_plain(value, name)
