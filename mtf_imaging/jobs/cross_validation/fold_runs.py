"""The output folder of a cross-validation: its settings, its folds and their progress."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.data.records.manifest import Manifest
from mtf_imaging.data.records.splits import FILE, Fold, read_splits, write_splits
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.volume_scores.files import RESULTS, has_results
from mtf_imaging.files import lock
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.contained import check_no_links
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.partial import is_partial
from mtf_imaging.files.provenance.text import difference
from mtf_imaging.files.reading import Fault, faults_named
from mtf_imaging.files.run_folder import fold_folder, fold_folders

SETTINGS = "cross_validation.json"
_EVALUATION = "evaluation"


class FoldRuns:
    """The output folder of a cross-validation.

    It contains `cross_validation.json`, `splits_final.json`, and for each fold its run folder, `fold_0`,
    `fold_1`, ..., with the scores of the held-out cases in `evaluation`.

    Args:
      output_dir: the folder.
    """

    def __init__(self, output_dir: str | Path) -> None:
        self.path = Path(output_dir)
        self.splits_file = self.path / FILE

    def run(self, fold: int) -> Path:
        """Returns the run folder of a fold."""
        return fold_folder(self.path, fold)

    def evaluation(self, fold: int) -> Path:
        """Returns the evaluation folder of a fold."""
        return self.run(fold) / _EVALUATION

    def metrics(self, fold: int) -> dict[str, Any]:
        """Returns the contents of `metrics.json` of a finished fold."""
        return read_object(self.evaluation(fold) / RESULTS[0])

    def pooled(self) -> dict[str, Any]:
        """Returns the contents of `metrics.json` of the pooled results."""
        return read_object(self.path / RESULTS[0])

    def finished(self, number: int) -> list[int]:
        """Returns the folds that are trained and scored.

        Args:
          number: the number of folds.
        """
        # The report is written last. Scores exist only after the last step, and the settings cannot change afterwards.
        return [fold for fold in range(number) if has_results(self.evaluation(fold))]

    def check(self, settings: Mapping[str, str], splits: Sequence[Fold], manifest: Manifest) -> None:
        """Checks that the folder is empty, or that its cross-validation began with these arguments.

        Until the first fold has a folder, nothing depends on the settings, so they may still change.

        Args:
          settings: the settings that all folds share, by argument name.
          splits: the folds.
          manifest: the manifest of the records.

        Raises:
          ConfigError: the folder contains a cross-validation with other settings, folds or cases, or other files.
        """
        saved = self._read()
        if saved is not None:
            if fold_folders(self.path):
                self._compare(saved, settings, splits, _sources(manifest))
            return
        others = sorted(p.name for p in self.path.glob("*") if not is_partial(p) and p.name != lock.NAME)
        if others:
            raise ConfigError(
                f"{self.path}: contains {others[0]} but no {SETTINGS}, so it is not the folder of a cross-validation. "
                "Fix: give a new or empty folder as output_dir.",
                ["output_dir"],
            )

    def begin(self, settings: Mapping[str, str], splits: Sequence[Fold], manifest: Manifest) -> None:
        """Saves the settings, the folds and the cases before the first fold, after the same checks as `check`.

        Raises:
          ConfigError: see `check`; or the folder of a fold, or of its scores, is a symbolic link.
        """
        self.check(settings, splits, manifest)
        folds = fold_folders(self.path)
        check_no_links([*folds.values(), *map(self.evaluation, folds)], "output_dir")
        if not fold_folders(self.path):
            with writing_to(self.path):
                write_splits(self.splits_file, splits)
                self._write({"settings": dict(settings), "cases": _sources(manifest), "pooled": {}})

    def read_splits(self) -> list[Fold] | None:
        """Returns the folds of the cross-validation in this folder; None if no fold has begun."""
        return read_splits(self.splits_file) if (self.path / SETTINGS).is_file() and fold_folders(self.path) else None

    def is_pooled(self, folds: Sequence[int]) -> bool:
        """Returns whether pooled results for exactly these finished folds exist."""
        saved = self._read() or {}
        return has_results(self.path) and saved.get("pooled") == self._digests(folds)

    def save_pooled(self, folds: Sequence[int]) -> None:
        """Records that the pooled results cover these finished folds."""
        self._write((self._read() or {}) | {"pooled": self._digests(folds)})

    def _digests(self, folds: Sequence[int]) -> dict[str, str]:
        contents = {fold: (self.evaluation(fold) / RESULTS[0]).read_bytes() for fold in folds}
        return {str(fold): hashlib.sha256(content).hexdigest()[:16] for fold, content in contents.items()}

    def _read(self) -> dict[str, Any] | None:
        path, fix = self.path / SETTINGS, "give another output_dir"
        if not path.is_file():
            return None
        saved = read_object(path, fix)
        with faults_named(path, fix):
            if not all(isinstance(saved.get(name), dict) for name in ("settings", "cases", "pooled")):
                raise Fault("is damaged: it lacks the settings, the cases or the scores", settings=["output_dir"])
        return saved

    def _write(self, contents: dict[str, Any]) -> None:
        write_bytes(self.path / SETTINGS, (json.dumps(contents, indent=1) + "\n").encode())

    def _compare(
        self, saved: dict[str, Any], settings: Mapping[str, str], splits: Sequence[Fold], sources: dict[str, str]
    ) -> None:
        """Raises ConfigError if the folder contains a cross-validation with other settings, folds or cases."""
        before = _began_with(read_splits(self.splits_file), saved.get("cases", {}), saved.get("settings", {}))
        now = _began_with(splits, sources, settings)
        for name in {**now, **before}:
            old, new = (values.get(name, "None") for values in (before, now))
            if old != new:
                shown = difference(old, new)
                own = {"folds": ["num_folds", "splits_file"], "files": ["data_dir"]}.get(name.split()[0], [name])
                raise ConfigError(
                    f"{self.path}: the cross-validation in this folder has {name} {shown[0]}, but {shown[1]} is given. "
                    f"Fix: give the same {' and '.join(own)}, or give another output_dir.",
                    [*own, "output_dir"],
                )


def _began_with(splits: Sequence[Fold], cases: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Returns what a cross-validation depends on, as texts by name."""
    folds = {"folds": " ".join(fold.digest for fold in splits)}
    files = {f"files of case {key}": digest for key, digest in cases.items()}
    return {**folds, **files, **settings}


def _sources(manifest: Manifest) -> dict[str, str]:
    """Returns the digest of each case's files by case key."""
    return {key: source.digest if source else "" for key, source in manifest.sources.items()}
