"""Arrays, as a custom data set prepares them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mtf_imaging.kinds.kind import ARRAYS, Kind

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.kinds.arrays.prediction import ArrayImages
    from mtf_imaging.kinds.arrays.training import ArrayTraining
    from mtf_imaging.kinds.export import ExportedRun
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.inference import Inference


class ArrayKind(Kind):
    """Arrays, a `Kind`; that of all data sets of other classes."""

    name = title = images = ARRAYS
    data_set, part = "a custom data set", "a folder"
    axes = ("x", "y", "z")
    has_splits = False
    demos = ()

    def holds(self, path: str | Path, need_labels: bool = False) -> bool:
        """Returns False, because only the data set knows its files."""
        return False

    def has_data_set(self, data_set: Any) -> bool:
        return True

    def training(self, data_set: Any) -> "ArrayTraining":
        from mtf_imaging.kinds.arrays.training import ArrayTraining

        return ArrayTraining(data_set)

    def prediction(self, run: Path, facts: "Facts | None", settings: "Inference") -> "ArrayImages":
        from mtf_imaging.kinds.arrays.prediction import ArrayImages

        assert facts is not None
        return ArrayImages(run, facts, settings)

    def export(self, run: "ExportedRun", facts: "Facts | None") -> "tuple[TrainedNetworks, ExportedKind]":
        from mtf_imaging.kinds.arrays.signatures import exported

        assert facts is not None
        return exported(run, facts)

    def workflow(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> NoReturn:
        raise AssertionError("there is no demo of arrays")
