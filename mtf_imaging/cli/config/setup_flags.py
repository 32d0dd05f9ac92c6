"""The setup flags, shared by all commands that run a job: the same flags describe the same experiment.

Scripts can pass the same flags to every command. Each command lists the flags that have no effect on it in IDLE.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import gin
from absl import flags

from mtf_imaging.cli.config import gin_config, partition_flags, run_config
from mtf_imaging.cli.config.gin_text import read_gin_text
from mtf_imaging.cli.config.groups import SETUP, SETUP_PARAMETERS, TRAIN_PARAMETERS
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.run_folder import CONFIG, weights_folder
from mtf_imaging.jobs.processes.devices import join
from mtf_imaging.jobs.runs.ensembles import ensemble_runs
from mtf_imaging.settings.setting import Settings, setting, settings
from mtf_imaging.settings.step import Devices
from mtf_imaging.settings.values import AUTO

_logger = logging.getLogger(__name__)


@settings
class GinSettings(Settings):
    """The sources of a command's gin parameters.

    Attributes:
      network: file of a network of Keras, TensorFlow or ONNX (.keras, .h5, .pb, .onnx, or the folder of a SavedModel),
        or the folder of a model of nnU-Net, for the segmentation of volumes. It is the network of the job, and its
        weights are the first weights of a training.
      gin_file: path of a gin file, or name of a shipped file (unet3d_demo, 4x4); may be repeated.
      gin_param: gin parameter, NAME=VALUE, for instance setup.batch_size=2; may be repeated. Short form:
        --gin.NAME=VALUE.
      import_modules: whether gin files may import modules that are not part of this package. The saved configuration of
        a run names the modules of its network, and importing them runs their code. Forbid it for runs from untrusted
        sources.
    """

    network: str | None = setting(default=None, flag=True)
    gin_file: tuple[str, ...] = setting(default=(), flag=True)
    gin_param: tuple[str, ...] = setting(default=(), flag=True)
    import_modules: bool = setting(default=True, flag=True)


# The settings of the setup flags. Flags take precedence over --gin_param, and --gin_param over the last --gin_file.
CLASSES = (GinSettings, *SETUP, partition_flags.PartitionSettings)


class Configuration:
    """The gin files, gin parameters and flags of a command, read in two steps around the import of TensorFlow.

    The constructor finds all mistakes that can be found without TensorFlow. `bind` binds names that modules register,
    so these modules must be imported first.
    """

    def __init__(
        self,
        values: flags.FlagValues,
        saved: str | Path | None = None,
        job: str | None = None,
        needs_job: bool = False,
        more_files: Iterable[str] = (),
        trains: bool = False,
    ):
        """Finds the files and checks the setup flags.

        Args:
          values: the parsed flags.
          saved: the saved configuration of a run, which is read first if it exists.
          job: the gin file to read first if there is no saved configuration and the flags name only layout files.
          needs_job: whether to raise an error if neither the saved configuration nor the flags contain a job.
          more_files: gin files to read last.
          trains: whether the flags of training settings, such as --num_steps, bind gin parameters.

        Raises:
          ConfigError, LayoutError: a file does not exist, a value is not valid, there is no job, or it does not take
            the network.
        """
        parameters = SETUP_PARAMETERS | (TRAIN_PARAMETERS if trains else {})
        given = {name: values[name].value for name in parameters if name in values and values[name].value is not None}
        JobSetup(**{name: value for name, value in given.items() if name in SETUP_PARAMETERS})
        if given.get("layout") == AUTO and given.get("mesh_shape"):
            raise ConfigError(
                f"--layout auto chooses the mesh, but --mesh_shape is {given['mesh_shape']}. Fix: leave one out."
            )
        self._saved = saved
        self._partition_dims = partition_flags.read(values)
        earlier = [Path(saved)] if saved is not None and Path(saved).is_file() else []
        network = values.network if "network" in values else None  # export does not have it
        foreign = ["imported_network"] if network and not earlier else []
        given_files = [gin_config.find_gin_file(name) for name in (*foreign, *values.gin_file)]
        has_job = earlier or any(file.parent.name != "layouts" for file in given_files)
        if job and not has_job:
            _logger.info("no job given; using %s", job)
            earlier = [gin_config.find_gin_file(job)]
        elif needs_job and not has_job and not any("job.task" in text for text in values.gin_param):
            folder = Path(saved).parent
            what = f"this folder holds no {Path(saved).name}" if folder.is_dir() else "this folder does not exist"
            raise ConfigError(f"{folder}: {what}. Fix: give the folder of a run as --model_dir.")
        self._files = [*earlier, *given_files, *map(gin_config.find_gin_file, more_files)]
        self._bindings, self._import_modules = values.gin_param, values.import_modules
        self._values = {parameters[name]: value for name, value in given.items()}
        if network:
            self._values["imported.Network.path"] = network
            self._bindings = [*self._bindings, *self._network_binding(network)]

    def binds(self, name: str) -> bool:
        """Returns whether a parameter, such as "train.data", is bound to a value other than None.

        Returns True if a file cannot be read; `bind` reports the error later.
        """
        try:
            return self._bound(name) is not None
        except (SyntaxError, ConfigError):
            return True

    def _network_binding(self, network: str) -> list[str]:
        """Returns the statements that replace the network of the job's task by that of --network.

        Raises:
          ConfigError: the task does not segment volumes.
        """
        try:
            task = str(self._bound("job.task"))
        except (SyntaxError, ConfigError):
            return []  # `bind` reports the error later
        name = task.strip("@()")
        if not name.rpartition("/")[2].startswith("unet3d."):
            raise ConfigError(
                f"--network {network} is a network for the segmentation of volumes, but job.task is {task}. "
                "Fix: leave out the job, or choose one whose task is unet3d.Segmentation."
            )
        return ["import mtf_imaging.models.imported", f"{name}.network = @imported.Network()"]

    def _bound(self, name: str) -> object:
        return read_gin_text(self._files, self._bindings, follow=True).bound.get(name)

    def bind(self) -> JobSetup:
        """Binds everything and returns the setup."""
        gin_config.bind(self._files, self._bindings, self._values, self._import_modules)
        if self._saved is not None:
            run_config.check_task(self._saved)
        if self._partition_dims:  # the bound job names the dimensions
            with gin.unlock_config():
                for name, value in partition_flags.resolve(self._partition_dims)._asdict().items():
                    gin.bind_parameter(f"setup.{name}", value)
        return JobSetup()

    def bind_together(self) -> JobSetup:
        """Does the same as `bind`, and joins the other processes of the program if there are any.

        Raises:
          ConfigError: the processes have different configurations, or the setup does not fit several processes.
        """
        setup = self.bind()
        join(setup.devices).agree({"the configuration": gin.config_str()})
        return setup


@settings
class ImportedNetworkFlags(Settings):
    """The network of a command that needs a trained one.

    Attributes:
      preprocessing: the JSON file that describes the images and labels of a network of another library: channels,
        intensities, voxel size and labels (docs/guides/networks.md).
    """

    preprocessing: str | None = setting(default=None, flag=True)


def saved_run(values: flags.FlagValues) -> tuple[Path, Configuration]:
    """Returns the run folder in --model_dir, and its configuration; with --ensemble, those of the first fold.

    With --network, --model_dir becomes a temporary folder with the weights of this network, or of all folds of nnU-Net.

    Raises:
      CheckpointError: the run, or a fold, has no such checkpoint.
      ConfigError, LayoutError: the folds do not form an ensemble, there is no preprocessing file, or the same as in
        `Configuration`.
    """
    if "preprocessing" in values:
        _import_network(values)
    run = Path(values.model_dir)
    if values.ensemble:
        runs = ensemble_runs(run, values.checkpoint)
        run_config.check_same_network(runs)
        run = runs[0]
    configuration = Configuration(values, run / CONFIG, needs_job=True)
    weights_folder(run, values.checkpoint)
    return run, configuration


def _import_network(values: flags.FlagValues) -> None:
    """Sets --model_dir to the folder of a run with the weights of --network, if it is given."""
    if values.preprocessing and not values.network:
        raise ConfigError("--preprocessing has no effect without --network. Fix: give both, or neither.")
    if values.network and values.model_dir:
        raise ConfigError(
            f"--network {values.network} and --model_dir {values.model_dir} are two networks. Fix: leave one out."
        )
    if values.network:
        import_tensorflow()
        from mtf_imaging.cli.config.imported_network import trained_networks, write_runs

        given = {name: values[name].value for name in ("mesh_impl", "communication") if values[name].value}
        group = join(Devices(**given))  # before the network is loaded, which uses TensorFlow
        file = values.preprocessing and Path(values.preprocessing)
        networks = trained_networks(Path(values.network))
        values.model_dir = group.first(lambda: str(write_runs(networks, file)))
        values.network, values.ensemble = str(networks[0].resolve()), values.ensemble or len(networks) > 1
