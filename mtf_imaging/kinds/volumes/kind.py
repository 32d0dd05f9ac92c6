"""Volumes: cases of one or more channels with masks, which training reads as records."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.kind import VOLUMES, Kind

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.kinds.export import ExportedRun
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.inference import Inference
    from mtf_imaging.kinds.volumes.demo import VolumeWorkflow
    from mtf_imaging.kinds.volumes.prediction import VolumeImages
    from mtf_imaging.kinds.volumes.training import RecordImages


class VolumeKind(Kind):
    """Volumes, a `Kind`."""

    name = title = images = VOLUMES
    data_set, part = "Records", "a fold"
    axes = ("x", "y", "z")
    has_splits = False
    demos = ("liver", "brain")

    def holds(self, path: str | Path, need_labels: bool = False) -> bool:
        """Returns whether a path is a volume, or a folder with one or with a `dataset.json`."""
        from mtf_imaging.data.description.dataset_json import FILE
        from mtf_imaging.data.listing.image_files import image_files
        from mtf_imaging.data.listing.image_formats import VOLUME_FORMATS

        path = Path(path)
        if VOLUME_FORMATS.stem(path) is not None:
            return True
        if not path.is_dir():
            return False
        try:
            return (path / FILE).is_file() or bool(image_files(path, VOLUME_FORMATS, needed=False))
        except DataError:
            return False

    def has_data_set(self, data_set: Any) -> bool:
        from mtf_imaging.data.records.data_set import Records

        return isinstance(data_set, Records)

    def training(self, data_set: Any) -> "RecordImages":
        from mtf_imaging.kinds.volumes.training import RecordImages

        return RecordImages(data_set)

    def prediction(self, run: Path, facts: "Facts | None", settings: "Inference") -> "VolumeImages":
        from mtf_imaging.kinds.volumes.prediction import VolumeImages

        return VolumeImages(run, settings)

    def export(self, run: "ExportedRun", facts: "Facts | None") -> "tuple[TrainedNetworks, ExportedKind]":
        from mtf_imaging.kinds.volumes.export.signatures import exported

        return exported(run, facts)

    def workflow(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> "VolumeWorkflow":
        from mtf_imaging.kinds.volumes.demo import VolumeWorkflow

        return VolumeWorkflow(output_dir, input_dir, demo)
