"""`mtf-imaging score`: scores segmentations of any origin."""

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.next_step import after_score
from mtf_imaging.data.nifti.spacing_table import read_spacing_table
from mtf_imaging.files.run_folder import check_no_run

SUMMARY = "scores a folder of segmentations: the official LiTS scores, and more measures."
EXAMPLE = "mtf-imaging score --reference_dir held_out --prediction_dir evaluation/predictions --output_dir scores"
REQUIRED = ("reference_dir", "prediction_dir", "output_dir")


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("reference_dir", None, "Folder of reference segmentations.", flag_values=values)
    flags.DEFINE_string(
        "prediction_dir",
        None,
        "Folder of predictions, paired with the references by the last number in their names.",
        flag_values=values,
    )
    flags.DEFINE_string("output_dir", None, "Folder for metrics.json, metrics.csv and report.html.", flag_values=values)
    flags.DEFINE_string(
        "volume_dir",
        None,
        "Folder of the CTs that report.html shows; default: the folder of the references, if it holds CTs.",
        flag_values=values,
    )
    setup_flags.define_spacing_csv(values)
    flags.DEFINE_integer(
        "workers",
        None,
        "Number of processes, of up to 2 GiB each; default: one per core, or fewer if memory is short.",
        lower_bound=1,
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str:
    check_no_run(values.output_dir)
    from mtf_imaging.evaluation.pairs.score import score_folders

    score_folders(
        values.reference_dir,
        values.prediction_dir,
        values.output_dir,
        values.workers,
        volume_dir=values.volume_dir,
        known=read_spacing_table(values.spacing_csv),
    )
    return after_score(values)
