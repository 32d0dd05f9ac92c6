"""Volumes: cases of one or more channels with masks, which training reads as records."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.facts import VOLUMES
from mtf_imaging.kinds.kind import Kind
from mtf_imaging.settings.inference import (
    ChooseCleanupSetting,
    CleanupSetting,
    EnsembleSetting,
    FlipSettings,
    MapSettings,
    OutputFormatSettings,
    SubmissionSetting,
    WindowSettings,
)
from mtf_imaging.settings.patches import PatchSettings, SlidingWindowSettings
from mtf_imaging.settings.step import SpacingSettings, SpacingTableSettings
from mtf_imaging.settings.training import FoldSettings

if TYPE_CHECKING:
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.image_settings import Inference
    from mtf_imaging.kinds.predicted import PredictedImages


class VolumeKind(Kind):
    """Volumes."""

    name = title = images = VOLUMES
    data_set, part = "Records", "a fold"
    demos = ("liver", "brain")
    settings = (
        FoldSettings,
        PatchSettings,
        SpacingSettings,
        SpacingTableSettings,
        WindowSettings,
        SlidingWindowSettings,
        EnsembleSetting,
        FlipSettings,
        CleanupSetting,
        ChooseCleanupSetting,
        OutputFormatSettings,
        MapSettings,
        SubmissionSetting,
    )

    def predicted(
        self, run: Path, facts: "Facts | None", settings: "Inference", input_path: str | Path | None = None
    ) -> "PredictedImages[Any, Any, Any]":
        return self._part("images").Images(run, facts, settings, is_scored=input_path is None)

    def holds(self, path: Path, need_labels: bool = False) -> bool:
        """Returns whether a path is a volume, or a folder that contains a volume or a `dataset.json`."""
        from mtf_imaging.data.description.dataset_json import FILE
        from mtf_imaging.data.listing.image_files import image_files
        from mtf_imaging.data.listing.image_formats import VOLUME_FORMATS

        if VOLUME_FORMATS.stem(path) is not None:
            return True
        try:
            return (path / FILE).is_file() or (path.is_dir() and bool(image_files(path, VOLUME_FORMATS, needed=False)))
        except DataError:
            return False
