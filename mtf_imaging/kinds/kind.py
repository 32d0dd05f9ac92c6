"""The interface through which training treats photos and objects alike."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


class ImageKind(Protocol):
    """The images of a data set, which a folder divides into splits.

    Attributes:
      name: the name of the kind, in messages and in `run.json`: "photos" or "objects".
      any_size: whether held-out images are predicted at their own sizes, not at the size of the training images.
      measure: the measure of held-out images that selects the best checkpoint.
      split: the split to train on; None for all images, or for the only split.
      held_out: the split of the held-out images that the data set names, as `run.json` stores it.
    """

    name: str
    any_size: bool
    measure: str
    split: str | None
    held_out: str | None

    def description(self, data_dir: str | Path) -> Any:
        """Returns the description of the images of a folder."""

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        """Returns the split of the held-out images of a folder; None for all images."""

    def held_out_keys(self, eval_dir: str | Path) -> list[str]:
        """Returns the keys of the held-out images of a folder."""

    def evaluation(self, eval_dir: str | Path, description: Any, task: "Task", progress: bool) -> Any:
        """Returns the default `Evaluation` of held-out images.

        Args:
          eval_dir: the folder of the held-out images.
          description: the description of the training images.
          task: the task.
          progress: whether to show a progress bar.

        Raises:
          DataError: the folder has other classes than the training.
        """
