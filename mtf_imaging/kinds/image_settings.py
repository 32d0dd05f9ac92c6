"""The settings of `evaluate` and `predict` that concern the images."""

from pathlib import Path
from typing import Self

from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable, read_spacing_table
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, Cleanup, as_cleanup
from mtf_imaging.settings.inference import (
    CleanupSetting,
    EvalBatchSettings,
    EvaluateSettings,
    FlipSettings,
    OutputFormatSettings,
    PredictSettings,
    ScaleSettings,
    TrainedRunSettings,
    WindowSettings,
)
from mtf_imaging.settings.patches import SlidingWindowSettings
from mtf_imaging.settings.setting import changed, settings, values_of
from mtf_imaging.settings.step import BatchSettings, SpacingSettings, SpacingTableSettings
from mtf_imaging.settings.values import Resolution


@settings
class Inference(
    SpacingSettings, WindowSettings, SlidingWindowSettings, FlipSettings, ScaleSettings, OutputFormatSettings
):
    """The settings of `evaluate` and `predict` that concern the images.

    Each kind of images takes some of them; see `Kind.settings`.
    """

    resolution: Resolution | None = changed(BatchSettings, "resolution")
    cleanup: Cleanup = changed(CleanupSetting, "cleanup", default=AS_FOUND)
    fold: int | None = changed(EvaluateSettings, "fold")
    splits_file: str | Path | None = changed(EvaluateSettings, "splits_file")
    split: str | None = changed(EvaluateSettings, "split")
    choose_cleanup: bool = changed(EvaluateSettings, "choose_cleanup")
    eval_batch_size: int = changed(EvalBatchSettings, "eval_batch_size")
    ensemble: bool = changed(TrainedRunSettings, "ensemble")
    submission: bool = changed(PredictSettings, "submission")
    label_codes: str | Path | None = changed(PredictSettings, "label_codes")
    probabilities: bool = changed(PredictSettings, "probabilities")
    uncertainty: bool = changed(PredictSettings, "uncertainty")
    spacing_table: SpacingTable = changed(SpacingTableSettings, "spacing_table", default=NO_TABLE)

    @classmethod
    def of(cls, own: object) -> Self:
        """Returns the settings of a job that concern the images; those that it lacks have their defaults."""
        given = {name: value for name, value in values_of(cls, own).items() if value is not None}
        known = {"spacing_table": read_spacing_table(given.get("spacing_table"))}
        return cls(**given | known | {"cleanup": as_cleanup(given.get("cleanup"))})
