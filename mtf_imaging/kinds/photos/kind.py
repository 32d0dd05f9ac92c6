"""Photos, and label images with a class for each pixel."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.kind import Kind

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.kinds.export import ExportedRun
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.inference import Inference
    from mtf_imaging.kinds.photos.demo import PhotoWorkflow
    from mtf_imaging.kinds.photos.prediction import PhotoImages
    from mtf_imaging.kinds.photos.training import PhotoTraining


class PhotoKind(Kind):
    """Photos, a `Kind`."""

    name = title = images = "photos"
    data_set, part = "Photos", "a list"
    axes = ("height", "width")
    has_splits = True
    demos = ("scenes",)

    def holds(self, path: str | Path, need_labels: bool = False) -> bool:
        """Returns whether a path is a photo, or a folder of photos."""
        from mtf_imaging.kinds.photos.reading.folders import find_photos

        try:
            return bool(find_photos(path, need_labels=need_labels))
        except (DataError, OSError):
            return False

    def has_data_set(self, data_set: Any) -> bool:
        from mtf_imaging.kinds.photos.data_set import Photos

        return isinstance(data_set, Photos)

    def training(self, data_set: Any) -> "PhotoTraining":
        from mtf_imaging.kinds.photos.training import PhotoTraining

        return PhotoTraining(data_set)

    def prediction(self, run: Path, facts: "Facts | None", settings: "Inference") -> "PhotoImages":
        from mtf_imaging.kinds.photos.prediction import PhotoImages

        assert facts is not None
        return PhotoImages(run, facts, settings)

    def export(self, run: "ExportedRun", facts: "Facts | None") -> "tuple[TrainedNetworks, ExportedKind]":
        from mtf_imaging.kinds.photos.signatures import exported

        assert facts is not None
        return exported(run, facts)

    def workflow(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> "PhotoWorkflow":
        from mtf_imaging.kinds.photos.demo import PhotoWorkflow

        return PhotoWorkflow(output_dir, input_dir)
