"""Images with the boxes and masks of objects, as in COCO."""

from pathlib import Path

from mtf_imaging.kinds.kind import Kind
from mtf_imaging.settings.inference import EvalBatchSettings, FlipSettings, ScaleSettings, SplitSetting


class ObjectKind(Kind):
    """Images with objects."""

    name, title, images = "objects", "images with objects", "images"
    data_set, part = "Objects", "a split"
    axes = ("height", "width")
    has_splits = True
    demos = ("objects",)
    settings = (FlipSettings, ScaleSettings, SplitSetting, EvalBatchSettings)

    def holds(self, path: Path, need_labels: bool = False) -> bool:
        """Returns whether a path is a folder with annotations of objects."""
        from mtf_imaging.kinds.objects.reading.annotations import has_annotations

        return path.is_dir() and has_annotations(path)
