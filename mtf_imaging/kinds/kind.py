"""The protocol of a kind of data, and the protocols of its parts.

A kind is a folder of this package. Its module `kind.py` imports neither TensorFlow nor NumPy before a method is called,
because the help of a command lists the kinds.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.training.task import Task

VOLUMES, ARRAYS = "volumes", "arrays"  # the data of `Records`, and of custom data sets


class Kind(Protocol):
    """A kind of data.

    Attributes:
      name: the name in `run.json` and in the card of an exported network, such as "photos".
      title: the data in messages, such as "images with objects".
      images: a shorter title, such as "images".
      data_set: the name of the data set in `mtf_imaging.data` and in gin files.
      part: what a folder divides the images into, with its article, such as "a list".
      axes: the names of the spatial dimensions in a resolution.
      has_splits: whether a folder may contain the held-out images, too.
    """

    name: str
    title: str
    images: str
    data_set: str
    part: str
    axes: tuple[str, ...]
    has_splits: bool

    def holds(self, path: str | Path, need_labels: bool = False) -> bool:
        """Returns whether a file or folder, which exists, is of this kind.

        Args:
          path: the file or folder.
          need_labels: whether its images must have labels.
        """

    def has_data_set(self, data_set: Any) -> bool:
        """Returns whether this is the kind of the images of a data set."""

    def training(self, data_set: Any) -> "TrainingImages":
        """Returns the images of a data set of this kind."""


class TrainingImages(Protocol):
    """The images of a data set, to train on and to hold out.

    Attributes:
      any_size: whether held-out images are predicted at their own sizes, not at the size of the training images.
      split: the split to train on; None for all images, or for the only split.
      held_out: the split of the held-out images that the data set names, as `run.json` stores it.
    """

    any_size: bool = False
    split: str | None = None
    held_out: str | None = None

    def description(self, data_dir: Any) -> Any:
        """Returns the description of the images of a folder; None if there is none."""

    def has_several_grids(self, data_dir: Any) -> bool:
        """Returns whether the images have several sizes, each of which is trained with a program of its own."""
        return False

    def measure(self, description: Any) -> str:
        """Returns the measure of held-out images that selects the best checkpoint."""

    def held_out_split(self, eval_dir: Any) -> str | None:
        """Returns the split of the held-out images of a folder; None for all images."""
        return None

    def agreed(self, data_dir: Any, eval_dir: Any) -> list[str]:
        """Returns texts that must be the same in all processes, because they tell which images these read.

        Args:
          data_dir: the folder of the training images.
          eval_dir: the folder of the held-out images; None if there are none that this class can read.
        """

    def evaluation(self, data_dir: Any, eval_dir: Any, description: Any, task: "Task", progress: bool) -> Any:
        """Returns the default `Evaluation` of held-out images.

        Args:
          data_dir: the folder of the training images.
          eval_dir: the folder of the held-out images.
          description: the description of the training images.
          task: the task.
          progress: whether to show a progress bar.

        Raises:
          ConfigError: there is no default evaluation.
          DataError: the held-out images have other classes than the training images.
        """

    def facts(self, data_dir: Any, sizes: tuple[int, ...], description: Any) -> "Facts":
        """Returns the facts about the data of a run.

        Args:
          data_dir: the folder of the training images.
          sizes: the sizes of the network's input.
          description: the description of the training images.
        """
