"""Prediction of arrays, which are prepared as the custom data set of a run prepares its images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.cases import natural_key
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import ImageFormat
from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named, errors_named
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.kind import ARRAYS, VOLUMES, NextStep, PredictedImages
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.kinds.output import check_kept, check_new, check_place, goes_to_folder, writing_results
from mtf_imaging.kinds.volumes.prediction import VolumeImages
from mtf_imaging.layout import parse_shape

if TYPE_CHECKING:
    from mtf_imaging.training.evaluation import Predict
    from mtf_imaging.training.task import Task

NPY = ImageFormat("NumPy", (".npy",), ".npy")
_ONE, _SEVERAL = ".npy", ".npz"  # the endings of predictions with one output, and with several
_VOLUME = ["batch", *AXIS_NAMES, "channels"]
_IDLE = dict.fromkeys(
    ("spacing", "window", "scales", "spacing_table"), "arrays are prepared as the data set prepares its images"
) | {
    "cleanup": "its rules are those of livers",
    "flips": "only the probabilities of volumes and photos are averaged",
    "submission": "the challenge has no arrays",
    "output_format": "predictions of arrays are NumPy files",
}


class ArrayFile(NamedTuple):
    """The file of an array.

    Attributes:
      key: the name of the file without its ending.
      path: the file.
    """

    key: str
    path: Path


class ArrayImages(PredictedImages):
    """The images of a custom data set: arrays; or volumes, if the network takes one channel along x, y and z.

    Args:
      run: the folder of the run.
      facts: the facts of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting has no effect.
      DataError: the resolution is malformed.
    """

    description = None

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        self._run, self._facts, self._settings = run, facts, settings
        self._own_volumes = VolumeImages(run, settings) if facts.axes == list(AXIS_NAMES) else None
        self.kind = VOLUMES if self._own_volumes else ARRAYS  # what messages ask for
        resolution = facts.resolution if settings.resolution is None else settings.resolution
        if isinstance(resolution, str | int):
            resolution = parse_grids(resolution, len(facts.axes), facts.axes)[-1]
        self._sizes = tuple(int(size) for size in resolution)

    @property
    def _volumes(self) -> VolumeImages:
        """The same images as volumes.

        Raises:
          ConfigError: they have other axes.
        """
        if self._own_volumes is None:
            raise self._unreadable(f"the axes {', '.join(self._facts.axes)}")
        return self._own_volumes

    def _unreadable(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._run}: the network was trained on a custom data set, and its input has {what}. Evaluation and "
            "prediction read volumes with the axes x, y, z and one channel for it. Fix: predict .npy files, which hold "
            "images as the data set prepares them; or export the run.",
            ["model_dir"],
        )

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list:
        return self._volumes.find_labeled(input_dir, output_dir)

    def plan_predictions(
        self, input_path: str | Path, output_path: str | Path, overwrite: bool
    ) -> list[tuple[Any, Path]]:
        input_path, output_path = Path(input_path), Path(output_path)
        arrays = _find(input_path)
        if not arrays:
            return self._volumes.plan_predictions(input_path, output_path, overwrite)
        self._settings.check_idle(_IDLE)
        check_place(input_path, output_path)
        is_folder = goes_to_folder(input_path, output_path, (_ONE, _SEVERAL), "the prediction for one array needs")
        outputs = [output_path / f"{array.key}{_ONE}" if is_folder else output_path for array in arrays]
        for array in arrays:
            check_kept(array.path, outputs, "prediction")
        check_new((path.with_suffix(ending) for path in outputs for ending in (_ONE, _SEVERAL)), overwrite)
        return list(zip(arrays, outputs, strict=True))

    def network(
        self, task: "Task", runs: Sequence[Path], checkpoint: str, images: Sequence[Any], **options: Any
    ) -> "Predict":
        from mtf_imaging.training.task import task_inputs  # imported here because it imports TensorFlow

        inputs = task_inputs(task, 1, self._sizes, labels=False)
        shapes = {name: parse_shape(shape) for name, (shape, _) in inputs.items()}
        image = dict(shapes.get("image", ()))
        shown = " and ".join(f"'{name}' [{shape}]" for name, (shape, _) in inputs.items())
        if not isinstance(images[0], ArrayFile):
            if list(shapes) != ["image"] or list(image) != _VOLUME or image["channels"] != 1:
                raise self._unreadable(f"the shape {shown}")
            return self._volumes.network(task, runs, checkpoint, images, **options)
        if list(shapes) != ["image"]:
            raise ConfigError(
                f"{self._run}: the network has the inputs {shown}, but predict has one array for each prediction. "
                "Fix: use a task whose predict takes only image.",
                ["task"],
            )
        for array in images:
            _check_shape(array.path, {name: size for name, size in image.items() if name != "batch"})
        return trained_network(task, [self._sizes], runs, checkpoint, **options)

    def run_network(self, images: Sequence[Any], network: "Predict") -> None:
        if not isinstance(images[0], ArrayFile):
            self._volumes.run_network(images, network)
            return
        for array in images:
            network(_read(array.path))

    def evaluate(
        self,
        images: Sequence[Any],
        network: "Predict",
        input_dir: str | Path,
        output_dir: str | Path,
        num_pictures: int,
        progress: bool,
    ) -> list:
        return self._volumes.evaluate(images, network, input_dir, output_dir, num_pictures, progress)

    def predict(
        self,
        planned: list[tuple[Any, Path]],
        network: "Predict",
        input_path: str | Path,
        output_path: str | Path,
        overwrite: bool,
        progress: bool,
    ) -> list[Path]:
        if not isinstance(planned[0][0], ArrayFile):
            return self._volumes.predict(planned, network, input_path, output_path, overwrite, progress)
        input_path, output_path, written = Path(input_path), Path(output_path), []
        is_folder = input_path.is_dir() or output_path.is_dir()
        with writing_results(input_path, output_path, []):
            for array, path in tqdm(planned, desc="predict", unit="array", disable=not progress):
                with errors_named(array.path):
                    result = network(_read(array.path))
                written.append(_write(path, result, is_folder))
        return written

    def next_step(self, planned: list[tuple[Any, Path]], input_path: Path, output_path: Path) -> NextStep:
        if not isinstance(planned[0][0], ArrayFile):
            return self._volumes.next_step(planned, input_path, output_path)
        first = planned[0][1]
        written = first if first.exists() else first.with_suffix(_SEVERAL)
        return NextStep("read {} with numpy.load", (written,))


def _find(path: Path) -> list[ArrayFile]:
    """Returns the array of a file, or the arrays of a folder, in natural order; none if there are none."""
    files = image_files(path, NPY, subfolders=False) if path.is_dir() else [path] if NPY.stem(path) is not None else []
    return sorted((ArrayFile(file.stem, file) for file in files), key=lambda array: natural_key(array.key))


def _check_shape(path: Path, expected: Mapping[str, int]) -> None:
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
        with access_named(path):
            return np.load(path, allow_pickle=False, **options)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not a NumPy array ({error}). Fix: write it with numpy.save.") from error


def _write(path: Path, result: Any, is_folder: bool) -> Path:
    """Writes a prediction atomically, as `.npy` if it is one array, and as `.npz` if it has several parts by name.

    Args:
      path: the file.
      result: the prediction.
      is_folder: whether the ending of the file may be changed to that of the prediction.

    Returns:
      The written file.

    Raises:
      DataError: the file has the ending of the other format.
    """
    parts = {name: _plain(part) for name, part in result.items()} if isinstance(result, Mapping) else None
    ending, found = (_ONE, "one array") if parts is None else (_SEVERAL, f"the arrays {', '.join(parts)}")
    path = path.with_suffix(ending) if is_folder else path
    if path.suffix.lower() != ending:
        raise DataError(
            f"{path}: the network returned {found}, which a {ending} file holds. Fix: name the output "
            f"{path.with_suffix(ending).name}.",
            ["output"],
        )
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        if parts is None:
            np.save(file, _plain(result))
        else:
            np.savez(file, allow_pickle=False, **parts)
    return path


def _plain(array: Any) -> np.ndarray:
    """Returns an array in a dtype of NumPy; bfloat16 becomes float32."""
    array = np.asarray(array)
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)
