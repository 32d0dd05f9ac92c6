"""The gin configurable `job`: the task and the settings that training, evaluation and prediction share."""

import gin

from mtf_imaging.cli.config.groups import JOB
from mtf_imaging.data.sampling.grid import AXIS_NAMES, PHOTO_AXES
from mtf_imaging.evaluation.cleanup import Cleanup
from mtf_imaging.settings.inference import CleanupSettings
from mtf_imaging.settings.setting import changed, settings, values_of
from mtf_imaging.settings.step import NetworkSettings
from mtf_imaging.settings.values import check_flips, check_scales
from mtf_imaging.training.task import Task


@gin.configurable("job", module="mtf_imaging")
@settings
class Job(*JOB):
    """The settings that training, evaluation and prediction share."""

    task: Task = changed(NetworkSettings, "task", default=gin.REQUIRED)

    def __post_init__(self):
        super().__post_init__()
        check_flips(self.flips, axis_names=(*AXIS_NAMES, *PHOTO_AXES))
        check_scales(self.scales)

    @property
    def cleanup(self) -> Cleanup:
        """The postprocessing of the segmentation in evaluate and predict."""
        return Cleanup(**values_of(CleanupSettings, self))
