"""Score a folder of segmentations, whoever made them, against a folder of references."""

import concurrent.futures
import multiprocessing
import os
from pathlib import Path

from tqdm import tqdm

from mtf_imaging.data.nifti import read_labels, read_segmentation
from mtf_imaging.evaluation.metrics import scores_text, write_metrics
from mtf_imaging.evaluation.pairs import Pair, find_pairs
from mtf_imaging.evaluation.predict import check_outside
from mtf_imaging.evaluation.scoring.case import CaseScore, score_case
from mtf_imaging.evaluation.scoring.overlap import dice_text


def score_folders(
    reference_dir: str | Path,
    prediction_dir: str | Path,
    output_dir: str | Path,
    workers: int | None = None,
    progress: bool = True,
) -> list[CaseScore]:
    """Scores each prediction at its reference's resolution and orientation, and writes `metrics.json` and a CSV.

    Args:
      reference_dir: folder of references; see `find_pairs`.
      prediction_dir: folder of predictions.
      output_dir: folder to write to; made where it is missing.
      workers: processes; default: one for each core. Each takes 1.5 GiB for a scan of 512 x 512 x 430 voxels.
      progress: whether to show a progress bar and print the tables.

    Returns:
      The scores, in natural order of the cases.

    Raises:
      DataError: a file cannot be used or has no partner, or the output folder lies in that of the references.
    """
    pairs = find_pairs(reference_dir, prediction_dir)
    check_outside(Path(output_dir), Path(reference_dir))
    scores = []
    workers = min(workers or os.cpu_count() or 1, len(pairs))
    spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads, as TensorFlow's, may hang
    with (
        concurrent.futures.ProcessPoolExecutor(workers, mp_context=spawn) as pool,
        tqdm(total=len(pairs), desc="score", unit="case", disable=not progress, dynamic_ncols=True) as bar,
    ):
        for case in pool.map(score_pair, pairs):
            scores.append(case)
            bar.set_postfix_str(f"{case.key}: {dice_text(case.overlaps)}")
            bar.update()
    write_metrics(output_dir, scores)
    if progress:
        print(scores_text(scores))
    return scores


def score_pair(pair: Pair) -> CaseScore:
    """Reads and scores one case."""
    reference = read_segmentation(pair.reference)
    prediction = read_labels(pair.prediction, reference)
    return score_case(pair.key, prediction, reference.labels, reference.geometry.spacing)
