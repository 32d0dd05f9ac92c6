"""The interface of a kind of data, and the protocols of its parts.

A kind is a folder of this package. `kind.py` describes it, `training.py` defines the class `Training`, `images.py` the
class `Images`, `signatures.py` the function `exported`, and `demo.py` the class `Demo`.
"""

import abc
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mtf_imaging.settings.setting import Settings

if TYPE_CHECKING:
    import numpy as np

    from mtf_imaging.data.description.differences import Difference
    from mtf_imaging.data.label_survey import LabelSurvey
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.kinds.demo import Workflow
    from mtf_imaging.kinds.export import ExportedRun
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.image_settings import Inference
    from mtf_imaging.kinds.predicted import PredictedImages
    from mtf_imaging.training.task import Task

Description = TypeVar("Description")  # of the images of a kind
Folder = TypeVar("Folder")  # how the data set names a folder


class Kind:
    """A kind of data. Its parts are imported when they are used, because the help of a command lists the kinds.

    Attributes:
      name: the name of the folder, also in `run.json` and in the card of an exported network, such as "photos".
      title: the data in messages, such as "images with objects".
      images: a shorter title, such as "images".
      data_set: the name of the data set in `mtf_imaging.data` and in gin files.
      part: what a folder divides the images into, with its article, such as "a list".
      axes: the names of the spatial dimensions in a resolution.
      has_splits: whether a folder may contain the held-out images, too.
      demos: the names of the synthetic data of `demo`.
      settings: the classes of the settings that this kind takes. Settings that no kind declares are for all of them.
        The settings of a class that no job has become settings of `evaluate` and `predict`.
    """

    name: str
    title: str
    images: str
    data_set: str
    part: str
    axes: tuple[str, ...] = ("x", "y", "z")
    has_splits: bool = False
    demos: tuple[str, ...] = ()
    settings: tuple[type[Settings], ...] = ()

    def holds(self, path: Path, need_labels: bool = False) -> bool:
        """Returns whether a file or folder, which exists, is of this kind.

        Args:
          path: the file or folder.
          need_labels: whether its images must have labels.
        """
        return False

    def has_data_set(self, data_set: object) -> bool:
        """Returns whether a data set has images of this kind."""
        return isinstance(data_set, self._part("training").Training.data_sets)

    def training(self, data_set: object) -> "TrainingImages[Any, Any]":
        """Returns the images of a data set of this kind."""
        return self._part("training").Training(data_set)

    def predicted(
        self, run: Path, facts: "Facts | None", settings: "Inference", input_path: str | Path | None = None
    ) -> "PredictedImages[Any, Any, Any]":
        """Returns the images that a trained network predicts, without finding them yet.

        Args:
          run: the folder of the run.
          facts: the facts of the run; None if its folder lacks them, which volumes accept.
          settings: the settings of the job.
          input_path: the images to predict; None to evaluate images.

        Raises:
          ConfigError: a setting is invalid or has no effect on these images.
          DataError: the facts of the run are damaged.
        """
        return self._part("images").Images(run, facts, settings)

    def export(self, run: "ExportedRun", facts: "Facts | None") -> "tuple[TrainedNetworks, ExportedKind]":
        """Builds the networks of a run for a model that TensorFlow runs without this package, with their signatures.

        Args:
          run: the run.
          facts: the facts of the run, as in `predicted`.

        Raises:
          ConfigError: a setting has no effect on the images, or cannot be part of a model.
        """
        return self._part("signatures").exported(run, facts)

    def workflow(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> "Workflow":
        """Returns the steps of the demo.

        Args:
          output_dir: the folder for all files of the demo.
          input_dir: a folder of this kind; None for synthetic data.
          demo: one of `demos`; None if there is a folder.

        Raises:
          DataError: the folder is malformed.
        """
        return self._part("demo").Demo(output_dir, input_dir, demo)

    def _part(self, module: str) -> Any:
        return importlib.import_module(f"{__package__}.{self.name}.{module}")


class TrainingImages(abc.ABC, Generic[Description, Folder]):
    """The images of a data set, to train on and to hold out.

    Attributes:
      data_sets: the class of the data sets.
      any_size: whether held-out images are predicted at their own sizes, not at the size of the training images.
      split: the split to train on; None for all images, or for the only split.
      held_out: the split of the held-out images that the data set names, as `run.json` stores it.
    """

    data_sets: type
    any_size: bool = False
    split: str | None = None
    held_out: str | None = None

    @abc.abstractmethod
    def description(self, data_dir: Folder) -> Description:
        """Returns the description of the images in a folder; None if there is none."""

    def differences(self, description: Description, fields: dict[str, Any] | None, where: str) -> "list[Difference]":
        """Returns the differences from the description that a run stores, those that change what a label means.

        Args:
          description: the description of the images.
          fields: the description in the facts of the run; see `Facts.description`.
          where: the file of the facts, for messages.

        Raises:
          DataError: the fields are damaged.
        """
        return []

    def label_survey(self, folder: Folder, description: Description, is_held_out: bool) -> "LabelSurvey | None":
        """Returns which labels the images of a folder have; None if the kind names no labels.

        Args:
          folder: the folder of the images.
          description: the description of the training images.
          is_held_out: whether to count the held-out images, not the images to train on.
        """
        return None

    def pictures(
        self, folder: Folder, description: Description, most: int
    ) -> "tuple[dict[str, np.ndarray], dict[str, str]]":
        """Returns pictures of some training images with their labels, by key, and the color of each label.

        Raises:
          DataError: an image cannot be read.
        """
        return {}, {}

    def has_several_grids(self, data_dir: Folder) -> bool:
        """Returns whether the images have several sizes, each of which is trained with a program of its own."""
        return False

    @abc.abstractmethod
    def measure(self, description: Description) -> str:
        """Returns the measure of held-out images that selects the best checkpoint."""

    def held_out_split(self, eval_dir: Folder) -> str | None:
        """Returns the split of the held-out images of a folder; None for all images."""
        return None

    @abc.abstractmethod
    def agreed(self, data_dir: Folder, eval_dir: Folder | None) -> list[str]:
        """Returns texts that must be the same in all processes, because they tell which images these read.

        Args:
          data_dir: the folder of the training images.
          eval_dir: the folder of the held-out images; None if there are none that this class can read.
        """

    def cases(self, data_dir: Folder) -> dict[str, str | None]:
        """Returns the file digest of each training image by its key; None where no digest is stored.

        Args:
          data_dir: the folder of the training images.
        """
        return {}

    @abc.abstractmethod
    def evaluation(
        self, data_dir: Folder, eval_dir: Folder, description: Description, task: "Task", progress: bool
    ) -> object:
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

    @abc.abstractmethod
    def facts(self, data_dir: Folder, sizes: tuple[int, ...], description: Description) -> "Facts":
        """Returns the facts about the data of a run.

        Args:
          data_dir: the folder of the training images.
          sizes: the sizes of the network's input.
          description: the description of the training images.
        """
