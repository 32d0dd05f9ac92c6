"""Photos, and label images with a class for each pixel."""

from pathlib import Path

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.kind import Kind
from mtf_imaging.settings.inference import (
    EnsembleSetting,
    EvalBatchSettings,
    FlipSettings,
    ScaleSettings,
    SplitSetting,
)


class PhotoKind(Kind):
    """Photos."""

    name = title = images = "photos"
    data_set, part = "Photos", "a list"
    axes = ("height", "width")
    has_splits = True
    demos = ("scenes",)
    settings = (EnsembleSetting, FlipSettings, ScaleSettings, SplitSetting, EvalBatchSettings)

    def holds(self, path: Path, need_labels: bool = False) -> bool:
        """Returns whether a path is a photo, or a folder of photos."""
        from mtf_imaging.kinds.photos.reading.folders import find_photos

        try:
            return bool(find_photos(path, need_labels=need_labels))
        except (DataError, OSError):
            return False
