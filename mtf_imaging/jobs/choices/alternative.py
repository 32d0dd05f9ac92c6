"""The costs of a planned step, to compare whole volumes with patches."""

import dataclasses

from mtf_imaging.jobs.choices.deciding import PATCHES, WHOLE
from mtf_imaging.jobs.choices.fitting import Fitted
from mtf_imaging.jobs.steps.costs import Hosts, WholeImage, patch_cost, predict_cost, receptive_field_of, without_batch
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.prediction import Prediction
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.training.step import TrainingStep


@dataclasses.dataclass(frozen=True)
class Alternative:
    """A step that fits, with its costs.

    Attributes:
      fitted: the choices.
      prediction: the cost of predicting one volume, with windows as large as the patch; None if unknown.
      windows: the number of windows; 1 for whole volumes.
      receptive_field: the voxels on which an output voxel depends; None if unknown.
    """

    fitted: Fitted
    prediction: Prediction | None
    windows: int
    receptive_field: ReceptiveField | None

    @property
    def kind(self) -> str:
        """`WHOLE` or `PATCHES`."""
        return WHOLE if self.fitted.patch is None else PATCHES

    @property
    def seconds(self) -> float:
        """The seconds of a training step."""
        return self.fitted.found.time.total

    @property
    def hours(self) -> float:
        """The hours of all training steps."""
        return self.seconds * self.fitted.num_steps.value / 3600


def with_costs(fitted: Fitted, step: TrainingStep, hardware: Hardware, hosts: Hosts) -> Alternative:
    """Returns a step with its costs.

    Args:
      fitted: the choices.
      step: the training step.
      hardware: the kind of device.
      hosts: the hosts.
    """
    layout, image = fitted.layout.value, WholeImage(fitted.grid.value, fitted.spacing.value)
    field = receptive_field_of(step, image)
    if fitted.patch is None:
        return Alternative(fitted, predict_cost(step, without_batch(layout), hardware, hosts), 1, field)
    cost = patch_cost(step, image, layout, hardware, hosts, with_whole=False)
    return Alternative(fitted, cost.sliding, cost.windows, field)
