"""Arrays, as a custom data set prepares them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.kinds.facts import ARRAYS
from mtf_imaging.kinds.kind import Kind
from mtf_imaging.settings.inference import EnsembleSetting, EvalBatchSettings

if TYPE_CHECKING:
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.image_settings import Inference
    from mtf_imaging.kinds.predicted import PredictedImages


class ArrayKind(Kind):
    """Arrays: the images of all data sets of other classes. Only the data set recognizes their files."""

    name = title = images = ARRAYS
    data_set, part = "a custom data set", "the data set"
    settings = (EnsembleSetting, EvalBatchSettings)

    def predicted(
        self, run: Path, facts: "Facts | None", settings: "Inference", input_path: str | Path | None = None
    ) -> "PredictedImages[Any, Any, Any]":
        """Returns the arrays to predict; without arrays, the volumes of the data set."""
        own = self._part("images")
        has_arrays = input_path is not None and own.find_arrays(Path(input_path))
        return (own.Arrays if has_arrays else own.PreparedVolumes)(run, facts, settings)
