"""Prediction of arrays, prepared in the same way as the images of the run's custom data set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.cases import natural_key
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import ImageFormat
from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.contained import contained
from mtf_imaging.files.reading import errors_named, reading_named
from mtf_imaging.kinds.facts import ARRAYS, VOLUMES, Facts
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.kind import Planned
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.kinds.output import (
    check_kept,
    check_new,
    check_place,
    goes_to_folder,
    is_folder,
    plan_outputs,
    writing_results,
)
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles, PredictionRecord
from mtf_imaging.kinds.volumes import prediction as volumes
from mtf_imaging.network.network import Network

if TYPE_CHECKING:
    from mtf_imaging.settings.inference import PredictSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

NPY = ImageFormat("NumPy", (".npy",), ".npy")
_ONE, _SEVERAL = ".npy", ".npz"  # the endings of predictions with one output, and with several
_VOLUME = ["batch", *AXIS_NAMES, "channels"]
_PREPARED = "arrays are prepared as the data set prepares its images"
_IDLE = dict.fromkeys(("spacing", "window", "spacing_table"), _PREPARED) | {
    "sliding_window": "arrays are computed as a whole",
    "window_step": "arrays are computed as a whole",
    "cleanup": "its rules are for the labels of volumes",
    "choose_cleanup": "its rules are for the labels of volumes",
    "flips": "only the probabilities of volumes and photos are averaged",
    "submission": "the challenge has no arrays",
    **dict.fromkeys(("label_codes", "probabilities", "uncertainty"), "it concerns segmentations of volumes"),
    "output_format": "predictions of arrays are NumPy files",
    "eval_batch_size": "arrays are computed one at a time",
}


class ArrayFile(NamedTuple):
    """The file of an array.

    Attributes:
      key: the name of the file without its ending.
      path: the file.
    """

    key: str
    path: Path


class Prediction(volumes.Prediction):
    """The images of a custom data set: arrays; or volumes, if the network takes one channel along x, y and z.

    Args:
      run: the folder of the run.
      facts: the facts of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting has no effect.
      DataError: the resolution is malformed.
    """

    idle = MappingProxyType({"scales": _PREPARED, "split": "only folders of photos or objects have splits"})

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        super().__init__(run, facts, settings)
        self.description, self._facts = None, facts
        self._has_volumes = facts.axes == list(AXIS_NAMES)
        self.kind = VOLUMES if self._has_volumes else ARRAYS  # the kind that messages name
        resolution = facts.resolution if settings.resolution is None else settings.resolution
        if isinstance(resolution, str | int):
            resolution = parse_grids(resolution, len(facts.axes), facts.axes)[-1]
        self._sizes = tuple(int(size) for size in resolution)

    def _check_volumes(self, is_readable: bool, what: str) -> None:
        """Raises ConfigError if the images are not volumes of one channel."""
        if not is_readable:
            raise ConfigError(
                f"{self._run}: the network was trained on a custom data set, and its input has {what}. Evaluation and "
                "prediction read volumes with the axes x, y, z and one channel for it. Fix: predict .npy files, which "
                "hold images as the data set prepares them; or export the run.",
                ["model_dir"],
            )

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list:
        self._check_volumes(self._has_volumes, f"the axes {', '.join(self._facts.axes)}")
        return super().find_labeled(input_dir, output_dir)

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> Planned:
        input_path, output_path = Path(input_path), Path(output_path)
        arrays = _find(input_path)
        if not arrays:
            self._check_volumes(self._has_volumes, f"the axes {', '.join(self._facts.axes)}")
            return super().plan_predictions(input_path, output_path, overwrite)
        self._settings.check_idle(_IDLE)
        check_place(input_path, output_path)
        into = goes_to_folder(input_path, output_path, (_ONE, _SEVERAL), "the prediction for one array needs")

        def output_of(array: ArrayFile) -> Path:
            return contained(output_path, f"{array.key}{_ONE}") if into else output_path

        arrays, outputs, faults = plan_outputs(arrays, output_of)
        check_kept((array.path for array in arrays), outputs, "prediction")
        new = (path.with_suffix(ending) for path in outputs for ending in (_ONE, _SEVERAL))
        check_new(new, overwrite, output_path if into else None)
        return Planned(list(zip(arrays, outputs, strict=True)), faults)

    def prediction_files(self, pairs: list[tuple[Any, Path]], input_path: Path, output_path: Path) -> PredictionFiles:
        if not isinstance(pairs[0][0], ArrayFile):
            return super().prediction_files(pairs, input_path, output_path)
        images = (
            ImageFiles((array.path,), (path.with_suffix(_ONE), path.with_suffix(_SEVERAL))) for array, path in pairs
        )
        return PredictionFiles((*images,), folder=output_path if is_folder(input_path, output_path) else None)

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Any]) -> Network:
        from mtf_imaging.training.task import task_inputs  # imported here because it imports TensorFlow

        inputs = {name: shape for name, (shape, _) in task_inputs(settings.task, 1, self._sizes, labels=False).items()}
        shown = " and ".join(f"'{name}' [{shape}]" for name, shape in inputs.items())
        image = dict(parse_shape(inputs.get("image", "")))
        if not isinstance(images[0], ArrayFile):
            is_readable = len(inputs) == 1 and list(image) == _VOLUME and image["channels"] == 1
            self._check_volumes(is_readable, f"the shape {shown}")
            return super().network(settings, runs, images)
        if list(inputs) != ["image"]:
            raise ConfigError(
                f"{self._run}: the network has the inputs {shown}, but predict has one array for each prediction. "
                "Fix: use a task whose predict takes only image.",
                ["task"],
            )
        for array in images:
            _check_array(array.path, {name: size for name, size in image.items() if name != "batch"})
        return trained_network(settings, runs, [self._sizes])

    def run_network(self, images: Sequence[Any], network: Network) -> None:
        if not isinstance(images[0], ArrayFile):
            return super().run_network(images, network)
        for array in images:
            network(_read(array.path))
        return None

    def predict(
        self,
        pairs: list[tuple[Any, Path]],
        network: Network | None,
        own: "PredictSettings",
        record: PredictionRecord,
        faults: CaseFaults,
    ) -> list[Path]:
        if not isinstance(pairs[0][0], ArrayFile):
            return super().predict(pairs, network, own, record, faults)
        input_path, output_path = Path(own.input), Path(own.output)
        into = is_folder(input_path, output_path)
        written = [path if path.exists() else path.with_suffix(_SEVERAL) for _, path in pairs]
        with writing_results(input_path, output_path, []), record.open():
            for number in tqdm(record.unfinished, desc="predict", unit="array", disable=not own.progress):
                array, path = pairs[number]
                assert network is not None, "an array is unfinished"
                with faults.collect(array.key, array.path):
                    image = _read(array.path)
                    with errors_named(array.path):
                        result = network(image)
                    with record.writing(number):
                        written[number] = _write(path, result, into)
        return written


def _find(path: Path) -> list[ArrayFile]:
    """Returns the array of a file, or the arrays of a folder in natural order; may be empty."""
    files = image_files(path, NPY, subfolders=False) if path.is_dir() else [path] if NPY.stem(path) is not None else []
    return sorted((ArrayFile(file.stem, file) for file in files), key=lambda array: natural_key(array.key))


def _check_array(path: Path, expected: Mapping[str, int]) -> None:
    """Raises DataError if a file does not hold an array of numbers with the shape of the network's input."""
    array = _read(path, mmap_mode="r")
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: has the dtype {array.dtype}, but the network takes numbers. Fix: convert the array.")
    if array.shape != tuple(expected.values()):
        needed = ", ".join(f"{name}: {size}" for name, size in expected.items())
        raise DataError(
            f"{path}: has the shape {list(array.shape)}, but the network takes [{needed}]. Fix: prepare the array as "
            "the data set of the training prepares its images, or give its sizes as resolution.",
            ["resolution"],
        )


def _read(path: Path, **options: Any) -> np.ndarray:
    """Reads a `.npy` file."""
    try:
        with reading_named(path):
            array = np.load(path, allow_pickle=False, **options)
        if not isinstance(array, np.ndarray):
            raise ValueError("it holds several arrays")
        return array
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not a NumPy array ({error}). Fix: write it with numpy.save.") from error


def _write(path: Path, result: Any, is_folder: bool) -> Path:
    """Writes a prediction atomically: one array as `.npy`, and several arrays by name as `.npz`.

    Args:
      path: the file.
      result: the prediction.
      is_folder: whether the prediction sets the ending of the file; otherwise the ending must fit.

    Returns:
      The written file.

    Raises:
      DataError: the ending does not fit.
    """
    is_one = not isinstance(result, Mapping)
    ending = _ONE if is_one else _SEVERAL
    path = path.with_suffix(ending) if is_folder else path
    if path.suffix.lower() != ending:
        found = "one array" if is_one else f"the arrays {', '.join(result)}"
        raise DataError(
            f"{path}: the network returned {found}, which a {ending} file holds. Fix: name the output "
            f"{path.with_suffix(ending).name}.",
            ["output"],
        )
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        if is_one:
            np.save(file, _plain(result))
        else:
            np.savez(file, allow_pickle=False, **{name: _plain(part) for name, part in result.items()})
    return path


def _plain(array: Any) -> np.ndarray:
    """Returns an array in a NumPy dtype; bfloat16 becomes float32."""
    array = np.asarray(array)
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)
