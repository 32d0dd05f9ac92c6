"""`mtf-imaging cross_validate`: trains and scores all folds of a data set, and pools their scores."""

import shlex
from pathlib import Path

import gin
from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.runtime.interrupts import end_at_once
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.jobs.processes.stop_signals import StopSignals
from mtf_imaging.settings.inference import ScaleSettings
from mtf_imaging.settings.setting import setting, settings
from mtf_imaging.settings.training import CrossValidateSettings, FoldsSettings


@settings
class _Flags(FoldsSettings, CrossValidateSettings):
    """The settings with flags in this command.

    Attributes:
      data_dir: records folder that convert wrote.
    """

    data_dir: str = setting(flag=True)


SUMMARY = "trains and scores all folds of a data set, and pools their scores."
EXAMPLE = (
    "mtf-imaging cross_validate --data_dir records --input_dir cases --output_dir cv --gin_file unet3d_lits "
    "--gin_file 4x4"
)
SETTINGS = (_Flags,)
WITHOUT = ()
NOTES = (
    "Each fold is a run in a folder of its own, cv/fold_0, cv/fold_1, ..., with the scores of its held-out cases in "
    "cv/fold_0/evaluation. cv/metrics.json, cv/metrics.csv and cv/report.html contain each case once, scored with the "
    "network that has not seen it.",
    "Start the same command again to continue: finished folds are kept, and an interrupted fold resumes from its last "
    "checkpoint. SIGTERM, SIGUSR1, SIGHUP (a lost terminal) and Ctrl-C save a checkpoint first, and the exit codes are "
    "those of train. With --folds, several machines can train different folds in the same folder; the last command "
    "pools them.",
)


def run(values: flags.FlagValues) -> str:
    configuration = setup_flags.Configuration(values, job="unet3d_demo", trains=True)
    given = FlagSettings(values, _Flags)
    known = read_spacing_table(values.spacing_csv)
    with StopSignals("stopped before the first fold. Run the same command to start again.", end_at_once):
        if not configuration.binds("train.data"):  # reports errors before TensorFlow is imported
            from mtf_imaging.data.records.manifest import open_records
            from mtf_imaging.kinds.all_kinds import check_volumes

            fix = "hold out {kind} with {part} of the folder, and run train and evaluate."
            check_volumes(values.data_dir, fix, "data_dir")
            open_records(values.data_dir)
        import_tensorflow()
        from mtf_imaging.cli.config.run_config import save_config
        from mtf_imaging.cli.config.training_settings import bound_settings
        from mtf_imaging.files.run_folder import fold_folder
        from mtf_imaging.jobs.cross_validating import cross_validate
        from mtf_imaging.kinds.all_kinds import KINDS, check_settings
        from mtf_imaging.kinds.facts import VOLUMES

        setup = configuration.bind_together()

        def save_configuration(fold, facts, layout):
            with gin.unlock_config():  # so that train and evaluate can use the folder like any other run
                gin.bind_parameter("train.fold", fold)
            return save_config(fold_folder(values.output_dir, fold), setup, facts, layout)

        scales = bound_settings(ScaleSettings, setup, values)
        check_settings(ScaleSettings(**scales), KINDS[VOLUMES])
        own = {"folds": given.folds, "spacing_table": known, "handle_signals": True}
        own |= {"save_configuration": save_configuration}
        cross_validate(**bound_settings(CrossValidateSettings, setup, values, **own))
    return f"open {shlex.quote(str(Path(values.output_dir) / 'report.html'))} in a browser"
