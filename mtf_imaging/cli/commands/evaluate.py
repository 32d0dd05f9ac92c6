"""`mtf-imaging evaluate`: segments labeled volumes or photos, or detects annotated objects, and scores the result."""

import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.config.groups import SETUP
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.jobs.runs.ensembles import check_no_fold
from mtf_imaging.kinds.all_kinds import open_subject, with_kinds
from mtf_imaging.settings.inference import EvaluateSettings

SUMMARY = "segments labeled cases and scores the result: tables, a report with pictures."
EXAMPLE = "mtf-imaging evaluate --model_dir run --input_dir held_out --output_dir evaluation"
SETTINGS = (with_kinds(EvaluateSettings), setup_flags.ImportedNetworkFlags)
INSTEAD = {"model_dir": "network"}
WITHOUT = ("micro_batches", "xla")
IDLE = {"batch_size": "evaluate has --eval_batch_size."}


def run(values: flags.FlagValues) -> str:
    given = FlagSettings(values, *SETTINGS, *SETUP)
    given.spacing_table = read_spacing_table(values.spacing_csv)
    check_no_fold(values.ensemble, values.fold)
    saved, configuration = setup_flags.saved_run(values)
    from mtf_imaging.kinds.image_settings import Inference

    subject = open_subject(saved, with_kinds(Inference).of(given))
    cases = subject.find_labeled(values.input_dir, values.output_dir)
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_settings
    from mtf_imaging.jobs.evaluating import evaluate

    setup = configuration.bind_together()
    own = {"spacing_table": given.spacing_table, "cases": cases}
    evaluate(**bound_settings(SETTINGS[0], setup, values, **own))
    return f"open {shlex.quote(str(Path(values.output_dir) / 'report.html'))} in a browser"
