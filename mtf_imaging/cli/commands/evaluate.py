"""`mtf-imaging evaluate`: segments labeled volumes or photos, or detects annotated objects, and scores the result."""

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.next_step import after_evaluate
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.records.splits import FILE
from mtf_imaging.files.run_folder import CONFIG, weights_folder
from mtf_imaging.jobs.ensembles import check_no_fold

SUMMARY = "segments labeled cases and scores the result: tables, a report with pictures."
EXAMPLE = "mtf-imaging evaluate --model_dir run --input_dir held_out --output_dir evaluation"
REQUIRED = ("model_dir", "input_dir", "output_dir")
IDLE = {"batch_size": "evaluate computes one image at a time."}


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder of the run, which train wrote; with --ensemble, of cross_validate.",
        flag_values=values,
    )
    setup_flags.define_checkpoint(values)
    setup_flags.define_ensemble(values)
    flags.DEFINE_string(
        "input_dir",
        None,
        "Folder of cases with their segmentations, of photos with their label images, or of objects as in COCO.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "split",
        None,
        "List of photos or split of objects to evaluate; default: the held-out one of the training, or all photos if "
        "there are no lists.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder for metrics.json, report.html, pictures and predictions.", flag_values=values
    )
    flags.DEFINE_integer(
        "fold",
        None,
        "Evaluate only the held-out cases of this fold, counted from 0.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_string(
        "splits_file",
        None,
        f"File of the folds; default: {FILE} in --model_dir, which train --fold wrote.",
        flag_values=values,
    )
    setup_flags.define_output_format(values)
    setup_flags.define_spacing_csv(values)
    setup_flags.define(values, without=["micro_batches"])


def run(values: flags.FlagValues) -> str:
    known = read_spacing_table(values.spacing_csv)
    check_no_fold(values.ensemble, values.fold)
    saved = setup_flags.saved_run(values)
    from mtf_imaging.kinds.all_kinds import open_subject
    from mtf_imaging.kinds.inference import Inference

    same = ("resolution", "spacing", "fold", "splits_file", "split", "ensemble", "output_format")
    settings = Inference(**{name: values[name].value for name in same}, spacing_table=known)
    subject = open_subject(saved, settings)
    configuration = setup_flags.Configuration(values, saved / CONFIG, needs_job=True)
    weights_folder(saved, values.checkpoint)
    cases = subject.find_labeled(values.input_dir, values.output_dir)
    import_tensorflow()
    from mtf_imaging.cli.config.job import Job
    from mtf_imaging.jobs.evaluating import evaluate

    setup = configuration.bind_together()
    evaluate(
        **Job().network,
        **setup.network,
        model_dir=values.model_dir,
        input_dir=values.input_dir,
        output_dir=values.output_dir,
        checkpoint=values.checkpoint,
        ensemble=values.ensemble,
        output_format=values.output_format,
        spacing_table=known,
        cases=cases,
    )
    return after_evaluate(values)
