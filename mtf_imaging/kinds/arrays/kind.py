"""Arrays, as a custom data set prepares them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.kinds.kind import ARRAYS, Kind

if TYPE_CHECKING:
    from mtf_imaging.kinds.arrays.prediction import ArrayImages
    from mtf_imaging.kinds.arrays.training import ArrayTraining
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.inference import Inference


class ArrayKind(Kind):
    """Arrays, a `Kind`; that of all data sets of other classes."""

    name = title = images = ARRAYS
    data_set, part = "a custom data set", "a folder"
    axes = ("x", "y", "z")
    has_splits = False

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
