"""`mtf-imaging score`: scores segmentations from any source."""

import shlex
from pathlib import Path

from absl import flags

from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.settings.setting import setting, settings
from mtf_imaging.settings.step import SpacingTableSettings, WorkerSettings

# Copies of values from modules that import NumPy, so that --help does not import it; a test compares them.
_RULES = ("lits", "any")
_TOLERANCE_MM = 1.0


@settings
class _Flags(SpacingTableSettings, WorkerSettings):
    """The settings with flags in this command.

    Attributes:
      reference_dir: folder of reference segmentations, in any format that predict writes, including DICOM-SEG.
      prediction_dir: folder of predictions, paired with the references by the last number in their names.
      output_dir: folder for metrics.json, metrics.csv and report.html.
      volume_dir: folder of the images that report.html shows. Default: the reference folder, if it contains
        images.
      rules: lits scores liver and lesions as the LiTS challenge does; any scores all masks of dataset.json. Default:
        lits for the LiTS labels, otherwise any.
      dataset_json: dataset.json with the labels. Default: the one in or above `reference_dir`, otherwise LiTS's labels.
      surface_tolerance: tolerance of the surface Dice in mm, with `rules` any.
    """

    reference_dir: str = setting(flag=True)
    prediction_dir: str = setting(flag=True)
    output_dir: str = setting(flag=True)
    volume_dir: str | None = setting(default=None, flag=True)
    rules: str | None = setting(default=None, choices=_RULES, flag=True)
    dataset_json: str | None = setting(default=None, flag=True)
    surface_tolerance: float = setting(default=_TOLERANCE_MM, unit="mm", flag=True)


SUMMARY = "scores a folder of segmentations of any labels; for LiTS also the official scores."
EXAMPLE = "mtf-imaging score --reference_dir held_out --prediction_dir evaluation/predictions --output_dir scores"
SETTINGS = (_Flags,)


def run(values: flags.FlagValues) -> str:
    check_no_run(values.output_dir)
    from mtf_imaging.evaluation.pairs.rules import Scoring, choose_description
    from mtf_imaging.evaluation.pairs.score import score_folders

    description = choose_description(values.reference_dir, values.rules, values.dataset_json)
    scoring = Scoring(description, read_spacing_table(values.spacing_csv), values.surface_tolerance)
    folders = values.reference_dir, values.prediction_dir, values.output_dir
    score_folders(*folders, values.workers, volume_dir=values.volume_dir, scoring=scoring)
    return f"open {shlex.quote(str(Path(values.output_dir) / 'report.html'))} in a browser"
