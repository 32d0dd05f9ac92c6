"""Trains a contender, scores it, and stores the result of the run in a file."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.learning import cases, contenders
from benchmarks.learning.contenders import MULTIPLE, SPACING, Contender
from mtf_imaging.evaluation.volume_scores.components import find_components
from mtf_imaging.evaluation.volume_scores.lesions import find_lesions
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights, write_weights

ROOT = Path(__file__).parents[2]
KERAS = Path(__file__).with_name("keras_unet.py")
RESULT, PROBABILITIES = "result.json", "probabilities"
_NO_CHANGE = "PolyDecay.initial = 1e-30"  # a learning rate with which a step keeps the first weights
LESION, MASKS = 2, {"liver": (1, 2), "lesion": (2,)}
# A lesion is predicted where its probability is at least t / (1 - t) times each other one; with 0.5, the argmax.
THRESHOLDS = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05)


class Runner:
    """Runs contenders.

    Args:
      all_cases: folder with the cases in train/, test/ and wide/.
      on: the cases to score on, as in `cases.prepare`.
      output_dir: folder of all results.
      spacing: voxel size of our records in mm.
    """

    def __init__(self, all_cases: Path, on: str, output_dir: Path, spacing: str = SPACING) -> None:
        self._all_cases, self._on, self.output_dir, self._spacing = all_cases, on, output_dir, spacing

    def is_finished(self, contender: Contender, seed: int) -> bool:
        """Returns whether a run has a result."""
        return (self._run_dir(contender, seed) / RESULT).exists()

    def run(self, contender: Contender, seed: int) -> None:
        """Trains and scores one contender with one seed, and writes its result."""
        run_dir, folder = (
            self._run_dir(contender, seed),
            cases.prepare(self._all_cases, self._on, seed, self.output_dir),
        )
        shutil.rmtree(run_dir, ignore_errors=True)
        seconds = (self._train_keras if contender.is_keras else self._train_ours)(contender, seed, folder, run_dir)
        rows = [dict(row) for path in sorted((run_dir / PROBABILITIES).iterdir()) for row in case_rows(path, folder)]
        result = {"contender": contender.name, "seed": seed, "steps": contender.steps, "cpu_seconds": round(seconds, 1)}
        write_bytes(run_dir / RESULT, json.dumps(result | {"cases": rows}, indent=1).encode())
        print(f"{contender.name}, seed {seed}: {seconds:.0f} s", flush=True)

    def _train_keras(self, contender: Contender, seed: int, folder: Path, run_dir: Path) -> float:
        words = ["--train", folder / "train", "--test", folder / "test", "--output", run_dir / PROBABILITIES]
        words += ["--steps", contender.steps, "--seed", seed, *contender.settings]
        if contender.exchanges_weights:
            words += ["--first_weights", self._our_weights(seed, folder)]
        printed, _ = _command([KERAS, *words])
        return float(printed.rpartition(" ")[2])

    def _train_ours(self, contender: Contender, seed: int, folder: Path, run_dir: Path) -> float:
        more = ["--initial_weights", self._keras_weights(seed, folder)] * contender.exchanges_weights
        seconds = self._train(seed, folder, run_dir, contender.steps, contender.settings, more)
        labels = run_dir / "labels"
        _ours("predict", "--model_dir", run_dir, "--input", folder / "test", "--output", labels, "--probabilities")
        (labels / PROBABILITIES).rename(run_dir / PROBABILITIES)
        for path in [labels, *run_dir.glob("ckpt-*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return seconds

    def _train(
        self, seed: int, folder: Path, run_dir: Path, steps: int, settings: Iterable[str], more: Iterable[object] = ()
    ) -> float:
        """Trains our job, and returns its CPU seconds."""
        records = folder.with_name(f"{folder.name}-records")
        if not records.exists():
            words = ["--input_dir", folder / "train", "--output_dir", records, "--spacing", self._spacing, *MULTIPLE]
            _ours("convert", *words)
        words = ["--data_dir", records, "--model_dir", run_dir, "--gin_file", contenders.JOB]
        words += ["--num_steps", steps, "--seed", seed, *more]
        for binding in [*settings, f"train.checkpoint_every = {steps}"]:
            words += ["--gin_param", binding]
        return _ours("train", *words)[1]

    def _our_weights(self, seed: int, folder: Path) -> Path:
        """Returns a file with the first weights of our job, {name: array}."""
        path = self._first_dir(f"ours-{seed}") / "weights.npz"
        self._train(seed, folder, path.parent / "run", 1, [_NO_CHANGE])
        weights = Weights(find_weights(path.parent / "run"))
        np.savez(path, **dict(weights.read([*weights.shapes])))
        return path

    def _keras_weights(self, seed: int, folder: Path) -> Path:
        """Returns a folder with the first weights of the Keras program, for the flag --initial_weights."""
        path = self._first_dir(f"keras-{seed}")
        words = ["--train", folder / "train", "--test", path, "--output", path, "--steps", 1, "--seed", seed]
        _command([KERAS, *words, "--first_weights", path / "weights.npz"])
        with np.load(path / "weights.npz") as weights:
            write_weights(path / "weights", weights, {"title": "the Keras U-Net"})
        return path / "weights"

    def _first_dir(self, name: str) -> Path:
        """Returns an empty folder for first weights."""
        path = self.output_dir / "first_weights" / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def _run_dir(self, contender: Contender, seed: int) -> Path:
        return self.output_dir / f"{contender.name}-{seed}"


def case_rows(path: Path, folder: Path) -> Iterable[Mapping[str, object]]:
    """Yields the voxels and lesions of a case with each threshold.

    Args:
      path: the probabilities of background, liver and lesion, [x, y, z, classes].
      folder: the folder of the cases.
    """
    key = cases.number(path)
    reference, file = _canonical(folder / f"test/segmentation-{key}.nii.gz")
    probabilities, _ = _canonical(path)
    spacing = [float(mm) for mm in file.header.get_zooms()[:3]]
    for threshold in THRESHOLDS:
        labels = np.argmax(probabilities * [1, 1, (1 - threshold) / threshold], -1)
        row = {"case": key, "threshold": threshold}
        for name, values in MASKS.items():
            predicted, real = np.isin(labels, values), np.isin(reference, values)
            voxels = {"predicted": predicted, "reference": real, "shared": predicted & real}
            row |= {f"{name}_{kind}": int(mask.sum()) for kind, mask in voxels.items()}
        lesions = find_lesions(find_components(labels == LESION, reference == LESION), spacing)
        row["lesions_predicted"] = sum(lesion.overlap.prediction > 0 for lesion in lesions)
        row["lesions_reference"] = sum(lesion.overlap.reference > 0 for lesion in lesions)
        row["lesions_shared"] = sum(lesion.is_detected(0.5) for lesion in lesions)
        yield row


def _canonical(path: Path):
    import nibabel

    file = nibabel.as_closest_canonical(nibabel.load(path))
    return np.asarray(file.dataobj), file


def _ours(command: str, *words: object) -> tuple[str, float]:
    return _command(["-m", "mtf_imaging.cli.main", command, *words])


def _command(words: Iterable[object]) -> tuple[str, float]:
    """Runs Python, and returns the last line that it printed and its CPU seconds."""
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": "1"},  # as in our commands, so also for the Keras program
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        text = output.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {process.returncode}\n{text[-2000:]}")
    return text.strip().rpartition("\n")[2], usage.ru_utime + usage.ru_stime
