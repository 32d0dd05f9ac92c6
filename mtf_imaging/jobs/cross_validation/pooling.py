"""The pooled scores of a cross-validation: every case once, scored with the network that has not seen it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.spacing_table import SpacingTable
from mtf_imaging.data.records.conversion import case_geometry
from mtf_imaging.data.records.manifest import Manifest
from mtf_imaging.data.records.splits import Fold
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.choosing import choose_rules
from mtf_imaging.evaluation.cleanup.stored_choice import RulesReport, save_rules
from mtf_imaging.evaluation.cleanup.thresholds import pooled_reliability
from mtf_imaging.evaluation.fold_table import fold_table, write_fold_table
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.pairs.running import parallel_run
from mtf_imaging.evaluation.pairs.score_pairs import score_pairs, write_scores
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import FIELD, TrainedRun
from mtf_imaging.jobs.cross_validation.fold_runs import FoldRuns
from mtf_imaging.kinds.volumes.evaluate import cases_to_evaluate, evaluated_pair


class Folds(NamedTuple):
    """The folds of a cross-validation, and the labeled cases from which their records were made.

    Attributes:
      runs: the output folder.
      splits: all folds.
      input_dir: the folder of the labeled cases.
      manifest: the manifest of the records.
      known: voxel sizes of files whose headers lack them.
      description: the channels and labels of the cases.
    """

    runs: FoldRuns
    splits: Sequence[Fold]
    input_dir: str | Path
    manifest: Manifest
    known: SpacingTable
    description: Description

    def held_out_cases(self, fold: int) -> list[Case]:
        """Returns the held-out cases of a fold, after checking that the records were converted from them.

        Raises:
          DataError: the folder lacks a case, or a CT does not have the shape of its record's CT.
        """
        evaluation, keys = self.runs.evaluation(fold), self.splits[fold].val
        cases = cases_to_evaluate(self.input_dir, evaluation, keys, self.known, self.description)
        for case in cases:
            source = self.manifest.sources.get(case.key)
            shape = case_geometry(case, self.known, self.description).shape
            if source is not None and tuple(source.shape) != tuple(shape):
                raise DataError(
                    f"{case.volume}: this CT has {_product(shape)} voxels, but the record of case {case.key} was made "
                    f"from one with {_product(source.shape)}. Fix: give the folder that the records were converted "
                    "from.",
                    ["input_dir", "data_dir"],
                )
        return cases

    def predictions(self, fold: int) -> list[Pair]:
        """Returns the stored segmentations of a fold with their references."""
        folder = self.runs.evaluation(fold)
        return [evaluated_pair(case, folder) for case in self.held_out_cases(fold)]


def pool_folds(
    folds: Folds, workers: int | None, progress: bool, rules: Mapping[str, Any], chooses_rules: bool = True
) -> dict[str, Any]:
    """Scores the segmentations of all finished folds together, and prints the tables.

    The stored segmentations are scored again, in parallel, because the stored scores are not complete enough to be
    pooled. If no fold has been finished since the last call, the stored results are used.

    Args:
      folds: the folds and their cases.
      workers: number of processes; None for one per core, or fewer if memory is short.
      progress: whether to show a progress bar and print the tables.
      rules: the settings that all folds share as JSON values, for the provenance of the scores.
      chooses_rules: whether to choose rules on the pooled cases, and to store them in the folder.

    Returns:
      The contents of the pooled `metrics.json`.

    Raises:
      DataError: a case has changed, or the scores of a fold belong to other cases.
      ConfigError: another process is writing to the folder.
    """
    runs, description = folds.runs, folds.description
    scoring = Scoring(description, folds.known)
    finished = runs.finished(len(folds.splits))
    metrics = {fold: runs.metrics(fold) for fold in finished}
    if not runs.is_pooled(finished):
        with writing_to(runs.path):
            pairs: list[Pair] = []
            parts = []
            for fold in finished:
                _check_metrics(runs, fold, metrics[fold], folds.splits[fold])
                first = len(pairs)
                pairs += folds.predictions(fold)
                parts.append(range(first, len(pairs)))
            run = parallel_run(workers)
            if progress:
                print("\nAll folds:", flush=True)
            scored = score_pairs(pairs, len(pairs), run, "score", scoring, progress)
            choice = None
            if chooses_rules:
                choice = choose_rules(pairs, run, scoring, parts if len(parts) > 1 else None)
                save_rules(runs.path, choice)
            chosen = RulesReport((), choice, pooled_reliability(pairs, description))
            # The networks that predicted the cases, which need not be the newest ones.
            networks = tuple(TrainedRun.from_json(run) for fold in finished for run in metrics[fold][FIELD]["runs"])
            write_scores(runs.path, scored, progress, description, Provenance(runs=networks, rules=rules), chosen)
            write_fold_table(runs.path, metrics)
            runs.save_pooled(finished)
    pooled = runs.pooled()
    if progress:
        print(f"\n{fold_table(metrics, pooled)}\n\n{_coverage(finished, folds.splits, pooled)}", flush=True)
    return pooled


def _check_metrics(runs: FoldRuns, fold: int, metrics: Mapping[str, Any], split: Fold) -> None:
    """Raises DataError if the scores of a fold do not belong to its held-out cases."""
    if {*metrics["cases"]} != {*split.val}:
        raise DataError(
            f"{runs.evaluation(fold)}: contains the scores of cases {', '.join(metrics['cases'])}, but fold {fold} "
            f"holds out {', '.join(split.val)}. Fix: delete this folder, then call cross_validate again.",
        )


def _coverage(folds: Sequence[int], splits: Sequence[Fold], pooled: Mapping[str, Any]) -> str:
    held_out = sum(len(fold.val) for fold in splits)
    if len(folds) == len(splits):
        return f"Pooled over all {len(splits)} folds: each of {held_out} cases once."
    missing = [fold for fold in range(len(splits)) if fold not in folds]
    cases = f"{len(pooled['cases'])} of {held_out} cases"
    return f"Pooled over {fold_names(folds)} only: {cases}. Not finished: {fold_names(missing)}."


def fold_names(folds: Sequence[int]) -> str:
    """Returns "fold 0", or "folds 0, 2"."""
    return f"fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))}"


def _product(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
