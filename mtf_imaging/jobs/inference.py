"""Functions shared by `evaluate` and `predict`: opening the images of a run and its network in all processes."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import trained_run
from mtf_imaging.jobs.agreement import check_agreement
from mtf_imaging.jobs.as_text import as_plain, as_text
from mtf_imaging.jobs.devices import as_devices
from mtf_imaging.jobs.ensembles import trained_runs
from mtf_imaging.kinds.all_kinds import open_subject
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.kind import PredictedImages
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.layout import Layout
from mtf_imaging.settings.inference import EvaluateSettings, InferenceSettings, PredictSettings
from mtf_imaging.settings.setting import values_of

if TYPE_CHECKING:
    from mtf_imaging.meshes.group import Group
    from mtf_imaging.training.evaluation import Predict


# Settings of `Inference` that are no rules: files, and what changes only the speed.
_NO_RULES = ("splits_file", "eval_batch_size", "spacing_table", "ensemble", "output_format", "submission")


def open_images(own: EvaluateSettings | PredictSettings) -> PredictedImages:
    """Returns the kind of images on which a run was trained, with the settings of a job.

    Raises:
      CheckpointError: the run has no such checkpoint.
      ConfigError: a setting has no effect on these images.
      DataError: the run's facts are damaged.
    """
    return open_subject(trained_runs(own)[0], Inference.of(own))


@contextlib.contextmanager
def network_of_run(
    subject: PredictedImages,
    own: EvaluateSettings | PredictSettings,
    images: Sequence[Any],
    choose: Callable[[], list[int]] | None = None,
) -> "Iterator[tuple[Group, Predict | None, Sequence[Any]]]":
    """Builds the trained network in all processes that run the job.

    Args:
      subject: the kind of images.
      own: the job settings.
      images: the images, which all processes must have in the same order.
      choose: a function that process 0 calls to get the numbers of the images to predict; None for all images.

    Yields:
      The processes, the network, and the images to predict. If there are none, the network is None.
    """
    task, devices = task_for(own.task, subject.description), as_devices(own.devices)
    with devices.joined(own.layout) as group:
        check_agreement(group, own, cases=[image.key for image in images])
        options: dict[str, Any] = {"layout": own.layout, "mesh_impl": devices.mesh_impl, "dtype": own.dtype}
        options |= {"averages": own.averages, "progress": own.progress and group.is_first}
        chosen = images if choose is None else [images[number] for number in group.first(choose)]
        network = subject.network(task, trained_runs(own), own.checkpoint, chosen, **options) if chosen else None
        yield group, network, chosen


def provenance(own: InferenceSettings, idle: Collection[str] = (), cleanup: list[str] | None = None) -> Provenance:
    """Returns the provenance of what a job computes with trained networks.

    Args:
      own: the settings of the job.
      idle: the settings that have no effect on its images.
      cleanup: the names of the rules that the job applies to labels; None for those of the settings.

    Raises:
      ConfigError, CheckpointError: the same as in `trained_runs`.
      DataError: the `run.json` of a run is damaged.
    """
    runs = tuple(trained_run(run, own.checkpoint) for run in trained_runs(own))
    used = {name: value for name, value in values_of(Inference, own).items() if name not in (*_NO_RULES, *idle)}
    if "cleanup" in used and cleanup is not None:
        used["cleanup"] = cleanup
    settings = {name: _as_rule(value) for name, value in used.items() if value is not None}
    rules = {"task": as_text(own.task), "dtype": own.dtype, "averages": bool(own.averages), **settings}
    layout = getattr(own, "layout", None)
    if layout is not None:
        layout = Layout.of(layout)
        layout = {"mesh_shape": layout.mesh_string, "layout": layout.rules_string}
    return Provenance(runs=runs, rules=rules, layout=layout)


def _as_rule(value: Any) -> Any:
    """Returns a setting as a JSON value; its text if there is none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _as_rule(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return as_plain(value)
