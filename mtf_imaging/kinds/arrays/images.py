"""Prediction of arrays, and evaluation and prediction of volumes, with the network of a custom data set."""

import operator
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from mtf_imaging.data.cases.cases import Case, natural_key
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import ImageFormat
from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.contained import contained
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.reading import errors_named, reading_named
from mtf_imaging.inference.network import Network, Prediction, of_each
from mtf_imaging.kinds.batches import Steps
from mtf_imaging.kinds.facts import ARRAYS, VOLUMES, Facts
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.kinds.output import check_kept, check_new, check_place, goes_to_folder, is_folder, plan_outputs
from mtf_imaging.kinds.predicted import Planned, PredictedImages
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles
from mtf_imaging.kinds.volumes import images as volumes

if TYPE_CHECKING:
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

_ONE, _SEVERAL = ".npy", ".npz"  # the endings of files with one array, and with several by name
NUMPY = ImageFormat("NumPy", (_ONE, _SEVERAL), _ONE)
_VOLUME = ["batch", *AXIS_NAMES, "channels"]


class ArrayFile(NamedTuple):
    """The file of an array, or of several arrays for the inputs of a network.

    Attributes:
      key: the name of the file without its ending.
      path: the file.
    """

    key: str
    path: Path


class PreparedVolumes(volumes.Images):
    """The volumes of a custom data set, whose network takes one channel along x, y and z.

    Args:
      run: the folder of the run.
      facts: the facts of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting has no effect.
    """

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        super().__init__(run, facts, settings)
        self.description, self._axes, self._sizes = None, facts.axes, facts.sizes
        if facts.axes != list(AXIS_NAMES):
            self.kind = ARRAYS  # which messages name

    def _check_volumes(self, is_readable: bool, what: str) -> None:
        """Raises ConfigError if the images are not volumes of one channel."""
        if not is_readable:
            raise ConfigError(
                f"{self._run}: the network was trained on a custom data set, and its input has {what}. Evaluation and "
                "prediction read volumes with the axes x, y, z and one channel for it. Fix: predict .npy files, which "
                "hold images as the data set prepares them; or export the run.",
                ["model_dir"],
            )

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[Case]:
        self._check_volumes(self.kind == VOLUMES, f"the axes {', '.join(self._axes)}")
        return super().find_labeled(input_dir, output_dir)

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> Planned[Case]:
        self._check_volumes(self.kind == VOLUMES, f"the axes {', '.join(self._axes)}")
        return super().plan_predictions(input_path, output_path, overwrite)

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Case]) -> Network:
        inputs = _inputs(settings, self._sizes)
        image = dict(parse_shape(inputs.get("image", "")))
        is_readable = len(inputs) == 1 and list(image) == _VOLUME and image["channels"] == 1
        self._check_volumes(is_readable, f"the shape {_shown(inputs)}")
        return super().network(settings, runs, images)


class Arrays(PredictedImages[ArrayFile, Any, Prediction]):
    """Arrays in files, prepared in the same way as the images of the run's custom data set.

    A `.npz` file holds the arrays of a network with several inputs, by their names.

    Args:
      run: the folder of the run.
      facts: the facts of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting has no effect.
      DataError: the resolution is malformed.
    """

    kind, noun, nouns = ARRAYS, "array", "arrays"
    description, cleanup = None, AS_FOUND

    def __init__(self, run: Path, facts: Facts, settings: Inference) -> None:
        self._run, self._batch_size = run, settings.eval_batch_size
        resolution = facts.resolution if settings.resolution is None else settings.resolution
        if isinstance(resolution, str | int):
            resolution = parse_grids(resolution, len(facts.axes), facts.axes)[-1]
        self._sizes = tuple(int(size) for size in resolution)

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> Planned[ArrayFile]:
        input_path, output_path = Path(input_path), Path(output_path)
        check_place(input_path, output_path)
        into = goes_to_folder(input_path, output_path, (_ONE, _SEVERAL), "the prediction for one array needs")

        def output_of(array: ArrayFile) -> Path:
            return contained(output_path, f"{array.key}{_ONE}") if into else output_path

        arrays, outputs, faults = plan_outputs(find_arrays(input_path), output_of)
        check_kept((array.path for array in arrays), outputs, "prediction")
        pairs = list(zip(arrays, outputs, strict=True))
        files = self.prediction_files(pairs, input_path, output_path)
        check_new((path for image in files.images for path in image.outputs), overwrite, files.folder)
        return Planned(pairs, faults)

    def prediction_files(
        self, pairs: list[tuple[ArrayFile, Path]], input_path: Path, output_path: Path
    ) -> PredictionFiles:
        if not is_folder(input_path, output_path):
            return PredictionFiles(tuple(ImageFiles((array.path,), (path,)) for array, path in pairs))
        endings = _ONE, _SEVERAL
        images = (ImageFiles((array.path,), tuple(map(path.with_suffix, endings))) for array, path in pairs)
        return PredictionFiles((*images,), folder=output_path)

    def written(self, planned: Planned[ArrayFile], files: PredictionFiles) -> list[Path]:
        return [next(filter(Path.exists, image.outputs), image.outputs[0]) for image in files.images]

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[ArrayFile]) -> Network:
        inputs = _inputs(settings, self._sizes)
        shapes = {name: {key: n for key, n in parse_shape(one) if key != "batch"} for name, one in inputs.items()}
        for array in images:
            _check_arrays(array.path, shapes)
        return trained_network(settings, runs, [self._sizes])

    def steps(self, network: Network) -> Steps[ArrayFile, Any, Prediction]:
        def infer(arrays: Sequence[ArrayFile], read: Sequence[Any]) -> list[Prediction]:
            with errors_named(arrays[0].path):
                return network.predict_batch(of_each(lambda *each: np.stack(each), *read))

        return Steps(operator.attrgetter("path"), lambda array: _read(array.path), infer, self._batch_size)

    def write(
        self,
        image: ArrayFile,
        read: Any,
        result: Prediction,
        outputs: Sequence[Path],
        provenance: Provenance | None,
    ) -> list[dict[str, Any]]:
        """Writes one array as `.npy`, and several arrays by name as `.npz`.

        Raises:
          DataError: the only file to write has another ending.
        """
        is_one = not isinstance(result, Mapping)
        ending = _ONE if is_one else _SEVERAL
        path = next((path for path in outputs if path.suffix.lower() == ending), None)
        if path is None:
            found = "one array" if is_one else f"the arrays {', '.join(result)}"
            raise DataError(
                f"{outputs[0]}: the network returned {found}, which a {ending} file holds. Fix: name the output "
                f"{outputs[0].with_suffix(ending).name}.",
                ["output"],
            )
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            if is_one:
                np.save(file, _plain(result))
            else:
                np.savez(file, allow_pickle=False, **{name: _plain(part) for name, part in result.items()})
        return []


def find_arrays(path: Path) -> list[ArrayFile]:
    """Returns the array of a file, or the arrays of a folder in natural order; may be empty."""
    is_one = not path.is_dir() and NUMPY.stem(path) is not None
    files = image_files(path, NUMPY, subfolders=False) if path.is_dir() else [path] * is_one
    return sorted((ArrayFile(file.stem, file) for file in files), key=lambda array: natural_key(array.key))


def _check_arrays(path: Path, expected: Mapping[str, Mapping[str, int]]) -> None:
    """Raises DataError if a file does not hold arrays of numbers with the shapes of the network's inputs."""
    read = _read(path, mmap_mode="r")
    if isinstance(read, Mapping) != (len(expected) > 1) or (len(expected) > 1 and read.keys() != expected.keys()):
        has = f"the arrays {', '.join(read)}" if isinstance(read, Mapping) else "one array"
        raise DataError(
            f"{path}: holds {has}, but the network has the inputs {', '.join(expected)}. Fix: write one input with "
            "numpy.save to a .npy file, and several with numpy.savez to a .npz file, by their names."
        )
    arrays = read if isinstance(read, Mapping) else dict.fromkeys(expected, read)
    for name, shape in expected.items():
        where, array = f"{path}: {name}" if len(expected) > 1 else path, arrays[name]
        if array.dtype.kind not in "biuf":
            raise DataError(f"{where}: has the dtype {array.dtype}, but the network takes numbers. Fix: convert it.")
        if array.shape != tuple(shape.values()):
            needed = ", ".join(f"{name}: {size}" for name, size in shape.items())
            raise DataError(
                f"{where}: has the shape {list(array.shape)}, but the network takes [{needed}]. Fix: prepare the array "
                "as the data set of the training prepares its images, or give its sizes as resolution.",
                ["resolution"],
            )


def _read(path: Path, mmap_mode: Literal["r"] | None = None) -> Any:
    """Reads a `.npy` file as an array, and a `.npz` file as a dict of arrays."""
    try:
        with reading_named(path):
            read = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
            if isinstance(read, np.ndarray):
                return read
            with read as file:
                return {**file}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a NumPy array ({error}). Fix: write it with numpy.save.") from error


def _inputs(settings: "NetworkBuilder", sizes: tuple[int, ...]) -> dict[str, str]:
    """Returns the shapes of the inputs of a network by name."""
    from mtf_imaging.training.task import task_inputs  # imported here because it imports TensorFlow

    inputs = task_inputs(settings.task, 1, sizes, dtype=settings.dtype, labels=False)
    return {name: shape for name, (shape, _) in inputs.items()}


def _shown(inputs: Mapping[str, str]) -> str:
    return " and ".join(f"'{name}' [{shape}]" for name, shape in inputs.items())


def _plain(array: np.ndarray) -> np.ndarray:
    """Returns an array in a NumPy dtype; bfloat16 becomes float32."""
    array = np.asarray(array)
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)
