"""The interface of a kind of data, and the protocols of its parts.

A kind is a folder of this package. `kind.py` describes it, `training.py` defines the class `Training`, `prediction.py`
the class `Prediction`, `signatures.py` the function `exported`, and `demo.py` the class `Demo`.
"""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mtf_imaging.errors import DataError
from mtf_imaging.settings.setting import Settings

if TYPE_CHECKING:
    from mtf_imaging.data.description.differences import Difference
    from mtf_imaging.data.label_survey import LabelSurvey
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.evaluation.export.signature import ExportedKind
    from mtf_imaging.files.case_errors import CaseFaults
    from mtf_imaging.files.provenance.provenance import Provenance
    from mtf_imaging.kinds.demo import Workflow
    from mtf_imaging.kinds.export import ExportedRun
    from mtf_imaging.kinds.facts import Facts
    from mtf_imaging.kinds.inference import Inference
    from mtf_imaging.kinds.prediction_record import PredictionFiles, PredictionRecord
    from mtf_imaging.network.network import Network
    from mtf_imaging.settings.inference import EvaluateSettings, PredictSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns
    from mtf_imaging.training.task import Task


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

    def has_data_set(self, data_set: Any) -> bool:
        """Returns whether a data set has images of this kind."""
        return isinstance(data_set, self._part("training").Training.data_sets)

    def training(self, data_set: Any) -> "TrainingImages":
        """Returns the images of a data set of this kind."""
        return self._part("training").Training(data_set)

    def prediction(self, run: Path, facts: "Facts | None", settings: "Inference") -> "PredictedImages":
        """Returns the images that a trained network predicts, without finding them yet.

        Args:
          run: the folder of the run.
          facts: the facts of the run; None if its folder lacks them, which volumes accept.
          settings: the settings of the job.

        Raises:
          ConfigError: a setting is invalid or has no effect on these images.
          DataError: the facts of the run are damaged.
        """
        return self._part("prediction").Prediction(run, facts, settings)

    def export(self, run: "ExportedRun", facts: "Facts | None") -> "tuple[TrainedNetworks, ExportedKind]":
        """Builds the networks of a run for a model that TensorFlow runs without this package, with their signatures.

        Args:
          run: the run.
          facts: the facts of the run, as in `prediction`.

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


class TrainingImages(Protocol):
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

    def description(self, data_dir: Any) -> Any:
        """Returns the description of the images in a folder; None if there is none."""

    def differences(self, description: Any, fields: dict[str, Any] | None, where: str) -> "list[Difference]":
        """Returns the differences from the description that a run stores, those that change what a label means.

        Args:
          description: the description of the images.
          fields: the description in the facts of the run; see `Facts.description`.
          where: the file of the facts, for messages.

        Raises:
          DataError: the fields are damaged.
        """
        return []

    def label_survey(self, folder: Any, description: Any, is_held_out: bool) -> "LabelSurvey | None":
        """Returns which labels the images of a folder have; None if the kind names no labels.

        Args:
          folder: the folder of the images.
          description: the description of the training images.
          is_held_out: whether to count the held-out images, not the images to train on.
        """
        return None

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

    def cases(self, data_dir: Any) -> dict[str, str | None]:
        """Returns the file digest of each training image by its key; None where no digest is stored.

        Args:
          data_dir: the folder of the training images.
        """
        return {}

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


class Planned(NamedTuple):
    """The images to predict.

    Attributes:
      pairs: pairs (image, file to write).
      faults: the errors of images whose predictions cannot be written, for example because of a long name, by key.
    """

    pairs: list[tuple[Any, Path]]
    faults: Mapping[str, DataError] = MappingProxyType({})


class PredictedImages(Protocol):
    """The images that a trained network predicts, with the settings of one run.

    An image has a `key`. It is a `Case` of volumes, a `Photo`, an `ObjectImage` or an `ArrayFile`.

    Attributes:
      kind: the name of the kind of images.
      description: the description of the data that the run was trained on; None for arrays.
      idle: the settings that have no effect on these images, with the reasons.
      cleanup: the rules for the labels of volumes, an `evaluation.cleanup.Cleanup`.
    """

    kind: str
    description: Any
    idle: Mapping[str, str]
    cleanup: Any

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list:
        """Finds the images to evaluate, and checks them and the output folder.

        Args:
          input_dir: the folder of labeled images.
          output_dir: the folder of the results.

        Raises:
          ConfigError, DataError: a folder or a setting is invalid.
        """

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> "Planned":
        """Finds the images to segment and the files to write, and checks both.

        Args:
          input_path: an image, or a folder of images.
          output_path: the segmentation to write, or the folder for the segmentations.
          overwrite: whether to replace existing segmentations.

        Raises:
          ConfigError, DataError: a path or a setting is invalid.
        """

    def prediction_files(self, pairs: list[tuple[Any, Path]], input_path: Path, output_path: Path) -> "PredictionFiles":
        """Returns the files that a prediction reads and writes.

        Args:
          pairs: the images and their files, of `plan_predictions`.
          input_path, output_path: the same as in `plan_predictions`.
        """

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Any]) -> "Network":
        """Builds the trained network.

        Args:
          settings: how the network is built; the kind sets its window and its batch size.
          runs: the runs whose probabilities are averaged.
          images: the images that will be segmented.
        """

    def run_network(self, images: Sequence[Any], network: "Network") -> None:
        """Runs the network on each image without writing anything, in a process that computes a part of the network."""

    def evaluate(
        self, images: Sequence[Any], network: "Network", own: "EvaluateSettings", provenance: "Provenance | None" = None
    ) -> list:
        """Predicts and scores the images, and writes the results.

        Args:
          images: the result of `find_labeled`.
          network: the result of `network`.
          own: the settings of the job.
          provenance: the provenance of the scores, without files; None if it is not known.

        Returns:
          The scores of each image.
        """

    def predict(
        self,
        pairs: list[tuple[Any, Path]],
        network: "Network | None",
        own: "PredictSettings",
        record: "PredictionRecord",
        faults: "CaseFaults",
    ) -> list[Path]:
        """Predicts the images that a record calls unfinished, and writes the results.

        Args:
          pairs: the images and their files, of `plan_predictions`.
          network: the result of `network`; None if all predictions are complete.
          own: the settings of the job.
          record: the record of the prediction.
          faults: receives the errors of single images, which do not end the work on the others.

        Returns:
          The paths of the written files.
        """
