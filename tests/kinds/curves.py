"""A kind of data of its own: curves in text files, whose network smooths them. It edits nothing of other kinds."""

import json
import operator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.kinds.batches import Steps, in_progress
from mtf_imaging.kinds.output import PICTURES, PREDICTIONS, check_new, check_results, write_picture
from mtf_imaging.kinds.predicted import Planned, PredictedImages, ResultFiles, Scoring
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles


class Curve(NamedTuple):
    """A curve; the file beside it with the ending `.label` has its label."""

    key: str
    path: Path


class Curves(PredictedImages[Curve, np.ndarray, np.ndarray]):
    """Curves that a network smooths.

    Args:
      eval_batch_size: the number of curves that are computed together.
    """

    kind, noun, nouns = "curves", "curve", "curves"
    description, cleanup = None, AS_FOUND

    def __init__(self, eval_batch_size=1):
        self._batch_size = eval_batch_size

    def find_labeled(self, input_dir, output_dir):
        curves = _find(Path(input_dir))
        inputs = [path for curve in curves for path in (curve.path, curve.path.with_suffix(".label"))]
        files = [_files(curve, Path(output_dir)) for curve in curves]
        check_results(files, Path(output_dir), inputs, Path(input_dir), "curves", "*.*")
        return curves

    def plan_predictions(self, input_path, output_path, overwrite):
        pairs = [(curve, Path(output_path) / f"{curve.key}.txt") for curve in _find(Path(input_path))]
        check_new([path for _, path in pairs], overwrite, Path(output_path))
        return Planned(pairs)

    def prediction_files(self, pairs, input_path, output_path):
        return PredictionFiles(tuple(ImageFiles((curve.path,), (path,)) for curve, path in pairs), folder=output_path)

    def steps(self, network):
        def infer(curves, read):
            return network.predict_batch(np.stack(read))

        return Steps(operator.attrgetter("path"), lambda curve: _read(curve.path), infer, self._batch_size)

    def write(self, image, read, result, outputs, provenance):
        write_bytes(outputs[0], _text(result))
        return []

    def scoring(self, own, provenance):
        return CurveScoring(own)


class CurveScoring(Scoring[Curve, np.ndarray, np.ndarray]):
    """The mean absolute error of each curve."""

    def __init__(self, own):
        self._own = own

    def files(self, image):
        return _files(image, self._own.output_dir)

    def read(self, image):
        return _read(image.path)

    def score(self, image, read, result, files):
        write_bytes(files.prediction, _text(result))
        if files.picture is not None:
            write_picture(files.picture, np.zeros((2, len(read), 3), np.uint8))
        return image.key, float(abs(result - _read(image.path.with_suffix(".label"))).mean())

    def gather(self, made, total, faults):
        return [*filter(None, in_progress(made, total, "evaluate", "curve", self._own.progress))]

    def report(self, images, scored):
        write_bytes(self._own.output_dir / "metrics.json", json.dumps(dict(scored)).encode())
        return scored


def write_curves(folder):
    folder.mkdir()
    for number in range(5):
        values = np.random.default_rng(number).random((6, 1))
        for ending in (".txt", ".label"):
            (folder / f"curve_{number}{ending}").write_bytes(_text(values))


def smooth(image):
    """A network: the mean of each value and the next."""
    return (image + np.roll(image, -1, axis=0)) / 2


def _find(folder):
    return [Curve(path.stem, path) for path in sorted(folder.glob("*.txt"))]


def _files(curve, output_dir):
    output_dir = Path(output_dir)
    return ResultFiles(output_dir / PREDICTIONS / f"{curve.key}.txt", output_dir / PICTURES / f"{curve.key}.png")


def _read(path):
    return np.loadtxt(path, ndmin=2)


def _text(values):
    return "".join(f"{value!r}\n" for value in values[:, 0].tolist()).encode()
