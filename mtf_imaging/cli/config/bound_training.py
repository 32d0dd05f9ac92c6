"""The settings of a training in another process, which reads the gin files itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.cli.config import gin_config
from mtf_imaging.cli.runtime.quiet import import_tensorflow

if TYPE_CHECKING:
    from mtf_imaging.settings.training import TrainSettings


def bound_training(gin_files: tuple[str, ...], gin_params: tuple[str, ...], data_dir: Path) -> "TrainSettings":
    """Returns the training settings that gin files bind; other processes can call this function.

    Args:
      gin_files: paths or names of the gin files.
      gin_params: gin parameters, NAME=VALUE.
      data_dir: folder of the records.

    Raises:
      ConfigError: a file does not exist, or a value is not valid.
    """
    import_tensorflow()
    from mtf_imaging.cli.config.job import Job
    from mtf_imaging.cli.config.setup import JobSetup
    from mtf_imaging.cli.config.training_settings import Training
    from mtf_imaging.settings.setting import values_of
    from mtf_imaging.settings.training import TrainSettings

    gin_config.bind([gin_config.find_gin_file(name) for name in gin_files], gin_params, {})
    job, training, setup = Job(), Training(), JobSetup()
    own: dict[str, Any] = {"data": training.source(job, setup, data_dir=data_dir), "model_dir": "unused"}
    return TrainSettings(**values_of(TrainSettings, job, training, setup, **own))
