"""Functions shared by `evaluate` and `predict`: opening the images of a run and its network in all processes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mtf_imaging.jobs.agreement import check_agreement
from mtf_imaging.jobs.devices import as_devices
from mtf_imaging.jobs.ensembles import trained_runs
from mtf_imaging.kinds.all_kinds import open_subject
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.kind import PredictedImages
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.settings.inference import EvaluateSettings, PredictSettings

if TYPE_CHECKING:
    from mtf_imaging.meshes.group import Group
    from mtf_imaging.training.evaluation import Predict


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
