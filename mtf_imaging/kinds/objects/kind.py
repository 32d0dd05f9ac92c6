"""Images with the boxes and masks of objects, as in COCO."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.kinds.kind import Kind

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.kinds.export import ExportedRun
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.inference import Inference
    from mtf_imaging.kinds.objects.demo import ObjectWorkflow
    from mtf_imaging.kinds.objects.prediction import ObjectImages
    from mtf_imaging.kinds.objects.training import ObjectTraining


class ObjectKind(Kind):
    """Images with objects, a `Kind`."""

    name, title, images = "objects", "images with objects", "images"
    data_set, part = "Objects", "a split"
    axes = ("height", "width")
    has_splits = True
    demos = ("objects",)

    def holds(self, path: str | Path, need_labels: bool = False) -> bool:
        """Returns whether a path is a folder with annotations of objects, as in COCO."""
        from mtf_imaging.kinds.objects.reading.annotations import has_annotations

        return Path(path).is_dir() and has_annotations(path)

    def has_data_set(self, data_set: Any) -> bool:
        from mtf_imaging.kinds.objects.data_set import Objects

        return isinstance(data_set, Objects)

    def training(self, data_set: Any) -> "ObjectTraining":
        from mtf_imaging.kinds.objects.training import ObjectTraining

        return ObjectTraining(data_set)

    def prediction(self, run: Path, facts: "Facts | None", settings: "Inference") -> "ObjectImages":
        from mtf_imaging.kinds.objects.prediction import ObjectImages

        assert facts is not None
        return ObjectImages(run, facts, settings)

    def export(self, run: "ExportedRun", facts: "Facts | None") -> "tuple[TrainedNetworks, ExportedKind]":
        from mtf_imaging.kinds.objects.signatures import exported

        assert facts is not None
        return exported(run, facts)

    def workflow(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> "ObjectWorkflow":
        from mtf_imaging.kinds.objects.demo import ObjectWorkflow

        return ObjectWorkflow(output_dir, input_dir)
