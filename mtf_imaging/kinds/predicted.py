"""The interface of the images that a trained network predicts.

A kind finds, reads, infers, scores and writes its images. `loop` does the rest, in the same way for all kinds.
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from mtf_imaging.errors import DataError

if TYPE_CHECKING:
    from mtf_imaging.files.case_errors import CaseFaults
    from mtf_imaging.files.provenance.provenance import Provenance
    from mtf_imaging.files.unfinished import Unfinished
    from mtf_imaging.inference.network import Network
    from mtf_imaging.kinds.batches import Keyed, Steps
    from mtf_imaging.kinds.prediction_record import PredictionFiles
    from mtf_imaging.settings.inference import EvaluateSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

# An image is a `Case` of volumes, a `Photo`, an `ObjectImage` or an `ArrayFile`.
Image = TypeVar("Image", bound="Keyed")
Read = TypeVar("Read")
Result = TypeVar("Result")
Rows = Sequence[tuple[Image, list[dict[str, Any]]]]


class Planned(NamedTuple, Generic[Image]):
    """The images to predict.

    Attributes:
      pairs: pairs (image, file to write).
      faults: the errors of images whose predictions cannot be written, for example because of a long name, by key.
    """

    pairs: list[tuple[Image, Path]]
    faults: Mapping[str, DataError] = MappingProxyType({})


class ResultFiles(NamedTuple):
    """The files that an evaluation writes for one image.

    Attributes:
      prediction: the prediction; the same file for all images if it has all predictions.
      picture: the picture; None if this image gets none.
    """

    prediction: Path
    picture: Path | None


class PredictedImages(Protocol[Image, Read, Result]):
    """The images that a trained network predicts, with the settings of one run.

    Attributes:
      kind: the name of the kind of images, which messages name.
      noun, nouns: an image, and several of them, in messages.
      description: the description of the data that the run was trained on; None for arrays.
      cleanup: the rules for the labels of volumes, an `evaluation.cleanup.cleanup.Cleanup`.
      begun: what a killed process has finished of a prediction, by the key of its image.
    """

    kind: str
    noun: str
    nouns: str
    description: Any
    cleanup: Any
    begun: "Mapping[str, Unfinished]" = MappingProxyType({})

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[Image]:
        """Finds the images to evaluate, and checks them and the output folder.

        Args:
          input_dir: the folder of labeled images.
          output_dir: the folder of the results.

        Raises:
          ConfigError, DataError: a folder or a setting is invalid.
        """

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> Planned[Image]:
        """Finds the images to predict and the files to write, and checks both.

        Args:
          input_path: an image, or a folder of images.
          output_path: the prediction to write, or the folder for the predictions.
          overwrite: whether to replace existing predictions.

        Raises:
          ConfigError, DataError: a path or a setting is invalid.
        """

    def prediction_files(
        self, pairs: list[tuple[Image, Path]], input_path: Path, output_path: Path
    ) -> "PredictionFiles":
        """Returns the files that a prediction reads and writes.

        Args:
          pairs: the images and their files, of `plan_predictions`.
          input_path, output_path: the same as in `plan_predictions`.
        """

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Image]) -> "Network":
        """Builds the trained network.

        Args:
          settings: how the network is built; the kind sets its window.
          runs: the runs whose probabilities are averaged.
          images: the images that will be predicted.
        """

    def steps(self, network: "Network") -> "Steps[Image, Read, Result]":
        """Returns the steps from an image to its prediction.

        Args:
          network: the result of `network`.
        """

    def send(self, result: Result) -> None:
        """Sends this process's part of a prediction to process 0, which calls `write` or `score`."""

    def write(
        self, image: Image, read: Read, result: Result, outputs: Sequence[Path], provenance: "Provenance | None"
    ) -> list[dict[str, Any]]:
        """Writes a prediction.

        Args:
          image: the image.
          read: what was read of it.
          result: the prediction.
          outputs: the files to write; see `PredictionFiles`.
          provenance: the provenance to store in the files; None for none.

        Returns:
          The rows of this image in the files about all images.
        """
        return []

    def write_shared(self, files: Sequence[Path], rows: Rows[Image]) -> None:
        """Writes the files about all images.

        Args:
          files: the files.
          rows: pairs of an image and its rows, as `write` returned them.
        """

    def written(self, planned: Planned[Image], files: "PredictionFiles") -> list[Path]:
        """Returns the paths of the predictions, after they were written."""
        return [*dict.fromkeys(path for _, path in planned.pairs)]

    def instructions(self, written: Sequence[Path]) -> str:
        """Returns what to do with the predictions; "" for nothing."""
        return ""

    def scoring(self, own: "EvaluateSettings", provenance: "Provenance") -> "Scoring[Image, Read, Result]":
        """Returns the scoring of images with labels.

        Args:
          own: the settings of the job.
          provenance: the provenance of the scores, without files.

        Raises:
          DataError: the labels have other meanings than in training.
        """


class Scoring(abc.ABC, Generic[Image, Read, Result]):
    """The scoring of images in a folder."""

    @abc.abstractmethod
    def files(self, image: Image) -> ResultFiles:
        """Returns the files to write for an image."""

    @abc.abstractmethod
    def read(self, image: Image) -> Read:
        """Reads an image with its labels."""

    @abc.abstractmethod
    def score(self, image: Image, read: Read, result: Result, files: ResultFiles) -> Any:
        """Writes a prediction and its picture, and returns its score, or what the scores are computed from later.

        Args:
          image: the image.
          read: what `read` returned.
          result: the prediction.
          files: the files to write.
        """

    @abc.abstractmethod
    def gather(self, made: Iterator[Any], total: int, faults: "CaseFaults") -> list:
        """Evaluates all images, and returns the scores, or what they are computed from.

        Args:
          made: the results of `score` for all images, computed one by one; None for images with errors.
          total: the number of images.
          faults: receives the errors of single images.
        """

    @abc.abstractmethod
    def report(self, images: Sequence[Image], scored: list) -> list:
        """Writes the scores and the report, and prints a table.

        Args:
          images: the images.
          scored: the result of `gather`.

        Returns:
          The scores of each image.
        """
