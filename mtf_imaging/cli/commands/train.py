"""`mtf-imaging train`: trains the network of a job, or resumes its training."""

from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.next_step import after_dry_run, after_train
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.jobs import run as run_folder
from mtf_imaging.jobs.stop_signals import StopSignals
from mtf_imaging.processes.processes import find_processes

SUMMARY = "trains a network under a layout, or resumes a run that was stopped."
EXAMPLE = "mtf-imaging train --data_dir records --model_dir run --gin_file unet3d_demo --gin_file 4x4"
REQUIRED = ("data_dir", "model_dir")
NOTES = (
    "SIGTERM, SIGUSR1 and Ctrl-C end the run: it finishes the current step, saves a checkpoint and exits with code 75 "
    "(130 for Ctrl-C). Start the same command again to resume; on a CPU, the final weights equal those of an "
    "uninterrupted run. A second signal ends the run at once. docs/slurm/one_node.sbatch is an example for Slurm.",
)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder of records that convert wrote, or of the files that train.data reads.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "eval_dir",
        None,
        "Folder of held-out records, photos or objects to score during training; train.eval_every is the number of "
        "steps between scores. For photos and objects, it can be --data_dir: Photos.split and Photos.held_out_split, "
        "or Objects.split and Objects.held_out_split, name the images.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "fold",
        None,
        "Hold out this fold of the records in --data_dir, counted from 0, and score it during training. Replaces "
        "--eval_dir.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_folds", None, "Number of folds of the records; default: 5.", lower_bound=2, flag_values=values
    )
    flags.DEFINE_string(
        "splits_file",
        None,
        "File of the folds in the format of nnU-Net's splits_final.json; train writes it if it does not exist.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "model_dir", None, "Folder of the run, for checkpoints, config.gin and TensorBoard events.", flag_values=values
    )
    flags.DEFINE_integer(
        "num_steps",
        None,
        "Number of steps of the whole run, including earlier calls.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "seed", None, "Seed of the initial weights, the data order and dropout.", lower_bound=0, flag_values=values
    )
    setup_flags.define_initial_weights(values)
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Build the step, print its costs and the slices of one processor, and exit.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "profile_steps",
        None,
        "Steps to trace for TensorBoard's profiler (pip install xprof); 10:13 traces steps 10, 11 and 12.",
        flag_values=values,
    )
    setup_flags.define(values)


def run(values: flags.FlagValues) -> str:
    saved = Path(values.model_dir) / CONFIG
    configuration = setup_flags.Configuration(
        values,
        saved,
        job="unet3d_demo",
        **{
            name: f"train.{name}"
            for name in ("num_steps", "seed", "fold", "num_folds", "splits_file", "initial_weights")
        },
    )
    with StopSignals() as signals:
        if not values.dry_run and find_processes() is None:
            with run_folder.held(values.model_dir):  # fails before TensorFlow is imported
                pass
        _check_records(values, configuration)
        import_tensorflow()
        from mtf_imaging.cli.config.run_config import save_config
        from mtf_imaging.cli.config.training_settings import training_arguments
        from mtf_imaging.jobs.training import train

        setup = configuration.bind_together()
        arguments = training_arguments(setup, values.data_dir, values.eval_dir)
        train(
            **arguments,
            model_dir=values.model_dir,
            dry_run=values.dry_run,
            stop=signals.reason,
            profile_steps=values.profile_steps,
            save_configuration=lambda facts, layout: save_config(values.model_dir, facts, setup, layout),
        )
    if values.dry_run:
        return after_dry_run(values)
    data = arguments["data"]
    has_default = data.evaluation is None
    return after_train(values, data.fold, data.is_records and has_default, data.kind.has_splits and has_default)


def _check_records(values: flags.FlagValues, configuration: setup_flags.Configuration) -> None:
    """Checks the folders of records, unless this is a dry run or the data set is not of records.

    Raises:
      DataError: a folder holds no complete set of records.
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
    )  # both replace the records of --eval_dir
    if values.eval_dir and not has_own:
        open_records(values.eval_dir)
