"""`mtf-imaging train`: trains the network of a job, or resumes its training."""

import functools
import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.interrupts import end_at_once
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.jobs.processes.stop_signals import StopSignals
from mtf_imaging.jobs.runs import folder as run_folder
from mtf_imaging.settings.training import DataSettings, TrainSettings

SUMMARY = "trains a network under a layout, or resumes a run that was stopped."
EXAMPLE = "mtf-imaging train --data_dir records --model_dir run --gin_file unet3d_demo --gin_file 4x4"
SETTINGS = (DataSettings, TrainSettings)
WITHOUT = ()
NOTES = (
    "SIGTERM, SIGUSR1, SIGHUP (a lost terminal) and Ctrl-C end the run: it finishes the current step, saves a "
    "checkpoint and exits with code 75 (130 for Ctrl-C). Start the same command again to resume; on a CPU, the final "
    "weights equal those of an uninterrupted run. A second signal ends the run at once. docs/slurm has job scripts.",
)


def run(values: flags.FlagValues) -> str:
    saved = Path(values.model_dir) / CONFIG
    configuration = setup_flags.Configuration(values, saved, job="unet3d_demo", trains=True)
    with StopSignals(second=end_at_once) as signals:
        if not values.dry_run and find_processes() is None:
            with run_folder.held(values.model_dir):  # reports errors before TensorFlow is imported
                pass
        _check_records(values, configuration)
        import_tensorflow()
        from mtf_imaging.cli.config.run_config import save_config
        from mtf_imaging.cli.config.training_settings import bound_settings
        from mtf_imaging.jobs.training import train

        setup = configuration.bind_together()
        save = functools.partial(save_config, values.model_dir, setup)
        arguments = bound_settings(TrainSettings, setup, values, stop=signals.reason, save_configuration=save)
        train(**arguments)
    if values.dry_run:
        return "the same command without --dry_run"
    data, run_dir = arguments["data"], shlex.quote(values.model_dir)
    if not (data.is_records or data.kind.has_splits):
        return f"tensorboard --logdir {run_dir}"
    fold = "" if data.fold is None else f" --fold {data.fold}"
    return f"mtf-imaging evaluate --model_dir {run_dir} --input_dir CASES --output_dir evaluation{fold}"


def _check_records(values: flags.FlagValues, configuration: setup_flags.Configuration) -> None:
    """Checks the records folders, unless this is a dry run or the data set does not consist of records.

    Raises:
      DataError: a folder does not contain a complete set of records.
    """
    if values.dry_run or configuration.binds("train.data"):
        return
    from mtf_imaging.data.records.manifest import open_records
    from mtf_imaging.kinds.all_kinds import check_volumes

    fix = "choose a job with {kind} as its data set (train.data = @{data_set}())."
    check_volumes(values.data_dir, fix, "data")
    open_records(values.data_dir)
    has_own = (
        configuration.binds("train.evaluation") or values.fold is not None
    )  # both replace the records in --eval_dir
    if values.eval_dir and not has_own:
        open_records(values.eval_dir)
