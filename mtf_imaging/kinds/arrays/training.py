"""Arrays as images to train on."""

from typing import TYPE_CHECKING

from mtf_imaging.data.sampling.buckets import format_grids
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.facts import ARRAYS, Facts
from mtf_imaging.kinds.kind import TrainingImages

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


class Training(TrainingImages[None, object]):
    """The images of a custom data set, which have no description.

    Args:
      data_set: the data set.
    """

    data_sets = object

    def __init__(self, data_set: object) -> None:
        self._data_set = data_set

    def description(self, data_dir: object) -> None:
        return None

    def measure(self, description: None) -> str:
        return "lesion"

    def agreed(self, data_dir: object, eval_dir: object) -> list[str]:
        return []

    def evaluation(self, data_dir: object, eval_dir: object, description: None, task: "Task", progress: bool) -> object:
        raise ConfigError(
            f"eval_dir: the data set is of class {type(self._data_set).__name__}, but the default evaluation "
            "scores only records. Fix: give a custom evaluation (see mtf_imaging.training.evaluation), or remove "
            "eval_dir.",
            ["evaluation", "eval_dir"],
        )

    def facts(self, data_dir: object, sizes: tuple[int, ...], description: None) -> Facts:
        return Facts(ARRAYS, format_grids([sizes]))
