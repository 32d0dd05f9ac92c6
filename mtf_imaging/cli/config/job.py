"""The gin configurable `job`: the task and the settings that training, evaluation and prediction share."""

import gin

from mtf_imaging.cli.config.groups import JOB
from mtf_imaging.evaluation.cleanup import Cleanup
from mtf_imaging.settings.setting import changed, filled, settings
from mtf_imaging.settings.step import NetworkSettings
from mtf_imaging.training.task import Task


@gin.configurable("job", module="mtf_imaging")
@settings
class Job(*JOB):
    """The settings that training, evaluation and prediction share."""

    task: Task = changed(NetworkSettings, "task", default=gin.REQUIRED)

    @property
    def cleanup(self) -> Cleanup:
        """The postprocessing of the segmentation in evaluate and predict."""
        return filled(Cleanup, self)
