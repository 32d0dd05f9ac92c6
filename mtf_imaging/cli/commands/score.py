"""`mtf-imaging score`: scores segmentations of any origin."""

from absl import flags

from mtf_imaging.cli.config.flags_of_settings import define
from mtf_imaging.cli.runtime.next_step import after_score
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.settings.step import SpacingTableSettings, WorkerSettings

SUMMARY = "scores a folder of segmentations of any labels; for LiTS also the official scores."
EXAMPLE = "mtf-imaging score --reference_dir held_out --prediction_dir evaluation/predictions --output_dir scores"
REQUIRED = ("reference_dir", "prediction_dir", "output_dir")
# Copies of values in modules that import NumPy, which --help does without; a test compares them.
_RULES = ("lits", "any")
_TOLERANCE_MM = 1.0


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
        "Folder of the images that report.html shows; default: the folder of the references, if it holds images.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "rules",
        None,
        _RULES,
        "lits scores liver and lesions as the LiTS challenge does; any scores all masks of dataset.json. Default: lits "
        "for the labels of LiTS, otherwise any.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "dataset_json",
        None,
        "The dataset.json with the labels; default: the one in or above --reference_dir, otherwise LiTS's labels.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "surface_tolerance", _TOLERANCE_MM, "Tolerance of the surface Dice in mm, with --rules any.", flag_values=values
    )
    define(values, SpacingTableSettings, WorkerSettings)


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
        rules=values.rules,
        dataset_json=values.dataset_json,
        surface_tolerance=values.surface_tolerance,
    )
    return after_score(values)
