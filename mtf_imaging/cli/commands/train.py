"""`mtf-imaging train`: trains the network of a job, or goes on with it."""

from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.jobs import run as run_folder
from mtf_imaging.jobs.stop_signals import StopSignals

SUMMARY = "trains the network on records under a layout; started again, it goes on where it was."
EXAMPLE = "mtf-imaging train --data_dir records --model_dir run --gin_file unet3d_demo --gin_file 4x4"
REQUIRED = ("data_dir", "model_dir")
NOTES = (
    "SIGTERM, SIGUSR1 and Ctrl-C save a checkpoint after the step that is being made and end the run, with exit code "
    "75 (130 for Ctrl-C): start the same command again, and it goes on to the very weights of a run that was never "
    "stopped. A second signal ends it at once. docs/slurm/one_node.sbatch has Slurm do so.",
)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "data_dir", None, "Folder of records that convert wrote, or of what train.data reads.", flag_values=values
    )
    flags.DEFINE_string(
        "eval_dir",
        None,
        "Folder of records of held-out cases, to score while it trains; train.eval_every says how often.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "fold",
        None,
        "Hold out this fold of the records in --data_dir, from 0, and score it while it trains; instead of --eval_dir.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_folds", None, "Folds to part the records into; default: 5.", lower_bound=2, flag_values=values
    )
    flags.DEFINE_string(
        "splits_file",
        None,
        "The folds as nnU-Net's splits_final.json; written where there is none.",
        flag_values=values,
    )
    flags.DEFINE_string("model_dir", None, "Folder for checkpoints, config.gin and events.", flag_values=values)
    flags.DEFINE_integer("num_steps", None, "Steps to train for, in all.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("seed", None, "Of weights, data order and dropout.", lower_bound=0, flag_values=values)
    flags.DEFINE_bool(
        "dry_run", False, "Build everything, print what one processor holds, and train nothing.", flag_values=values
    )
    flags.DEFINE_string(
        "profile_steps",
        None,
        "Steps to trace for TensorBoard's profiler (pip install xprof), as 10:13 for steps 10, 11 and 12.",
        flag_values=values,
    )
    setup_flags.define(values)


def run(values: flags.FlagValues) -> None:
    saved = Path(values.model_dir) / CONFIG
    configuration = setup_flags.Configuration(
        values,
        saved,
        job="unet3d_demo",
        **{name: f"train.{name}" for name in ("num_steps", "seed", "fold", "num_folds", "splits_file")},
    )
    with StopSignals() as signals:
        if not values.dry_run:
            with run_folder.held(values.model_dir):  # refused before TensorFlow is imported
                pass
        _check_records(values, configuration)
        import_tensorflow()
        from mtf_imaging.cli.config.run_config import save_config
        from mtf_imaging.cli.config.training_settings import training_arguments
        from mtf_imaging.jobs.training import train

        setup = configuration.bind()
        train(
            **training_arguments(setup, values.data_dir, values.eval_dir),
            model_dir=values.model_dir,
            dry_run=values.dry_run,
            stop=signals.reason,
            profile_steps=values.profile_steps,
            save_configuration=lambda facts: save_config(values.model_dir, facts, setup),
        )


def _check_records(values: flags.FlagValues, configuration: setup_flags.Configuration) -> None:
    """Checks the folders of records. A dry run or a data set other than records needs no check.

    Raises:
      DataError: a folder holds no finished records.
    """
    if values.dry_run or configuration.says("train.data"):
        return
    open_records(values.data_dir)
    has_own = configuration.says("train.evaluation") or values.fold is not None  # neither reads records of --eval_dir
    if values.eval_dir and not has_own:
        open_records(values.eval_dir)
