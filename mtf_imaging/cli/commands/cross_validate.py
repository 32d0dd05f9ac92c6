"""`mtf-imaging cross_validate`: trains and scores all folds of a data set, and pools their scores."""

import gin
from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.next_step import after_cross_validate
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.stop_signals import StopSignals

SUMMARY = "trains and scores all folds of a data set, and pools their scores."
EXAMPLE = (
    "mtf-imaging cross_validate --data_dir records --input_dir cases --output_dir cv --gin_file unet3d_lits "
    "--gin_file 4x4"
)
REQUIRED = ("data_dir", "input_dir", "output_dir")
NOTES = (
    "Each fold is a run in a folder of its own, cv/fold_0, cv/fold_1, ..., with the scores of its held-out cases in "
    "cv/fold_0/evaluation. cv/metrics.json, cv/metrics.csv and cv/report.html contain each case once, scored with the "
    "network that has not seen it.",
    "Start the same command again to continue: finished folds are kept, and an interrupted fold resumes from its last "
    "checkpoint. SIGTERM, SIGUSR1 and Ctrl-C save a checkpoint first, and the exit codes are those of train. With "
    "--folds, several machines can train different folds in the same folder; the last command pools them.",
)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("data_dir", None, "Folder of records that convert wrote.", flag_values=values)
    flags.DEFINE_string(
        "input_dir", None, "Folder of the labeled cases that the records were converted from.", flag_values=values
    )
    flags.DEFINE_string("output_dir", None, "Folder for the folds and the pooled results.", flag_values=values)
    flags.DEFINE_list("folds", None, "Folds to train, counted from 0, for instance 0,2; default: all.", values)
    flags.DEFINE_integer(
        "num_folds", None, "Number of folds of the records; default: 5.", lower_bound=2, flag_values=values
    )
    flags.DEFINE_string(
        "splits_file", None, "File of the folds in the format of nnU-Net's splits_final.json.", flag_values=values
    )
    flags.DEFINE_integer("num_steps", None, "Number of steps of each fold.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer(
        "seed", None, "Seed of the initial weights, the data order and dropout.", lower_bound=0, flag_values=values
    )
    setup_flags.define_initial_weights(values)
    flags.DEFINE_integer(
        "workers",
        None,
        "Number of processes that score the pooled cases, of up to 0.5 GiB each; default: one per core, or fewer if "
        "memory is short.",
        lower_bound=1,
        flag_values=values,
    )
    setup_flags.define_spacing_csv(values)
    setup_flags.define(values, without=["cluster"])


def run(values: flags.FlagValues) -> str:
    configuration = setup_flags.Configuration(
        values,
        job="unet3d_demo",
        **{name: f"train.{name}" for name in ("num_steps", "seed", "num_folds", "splits_file", "initial_weights")},
    )
    folds = None if values.folds is None else _numbers(values.folds)
    known = read_spacing_table(values.spacing_csv)
    with StopSignals("stopped before the first fold. Run the same command to start again."):
        if not configuration.binds("train.data"):
            from mtf_imaging.data.records.manifest import open_records
            from mtf_imaging.kinds.all_kinds import check_volumes

            fix = "hold out {kind} with {part} of the folder, and run train and evaluate."
            check_volumes(values.data_dir, fix, "data_dir")
            open_records(values.data_dir)  # fails before TensorFlow is imported
        import_tensorflow()
        from mtf_imaging.cli.config.job import Job
        from mtf_imaging.cli.config.run_config import save_config
        from mtf_imaging.cli.config.training_settings import training_arguments
        from mtf_imaging.files.run_folder import fold_folder
        from mtf_imaging.jobs.cross_validating import cross_validate
        from mtf_imaging.kinds.inference import Inference

        setup = configuration.bind_together()

        def save_configuration(fold, facts, layout):
            with gin.unlock_config():  # so that train and evaluate can use the folder as any other run
                gin.bind_parameter("train.fold", fold)
            return save_config(fold_folder(values.output_dir, fold), facts, setup, layout)

        arguments = training_arguments(setup, values.data_dir, None)
        network = Job().network
        Inference(scales=network.pop("scales")).check_idle({"scales": "cross_validate trains on volumes"})
        cross_validate(
            **network | arguments,
            input_dir=values.input_dir,
            output_dir=values.output_dir,
            folds=folds,
            spacing_table=known,
            workers=values.workers,
            handle_signals=True,
            save_configuration=save_configuration,
        )
    return after_cross_validate(values)


def _numbers(words: list[str]) -> list[int]:
    if not words or not all(word.strip().isdecimal() for word in words):
        raise ConfigError(f"--folds={','.join(words)}: needs numbers of folds. Fix: for instance --folds=0,2.")
    return [int(word) for word in words]
