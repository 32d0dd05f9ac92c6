"""Scores a folder of segmentations from any program against a folder of references."""

import os
from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.data.listing.image_formats import SCORED_FORMATS, format_by_ending, is_picture_ending
from mtf_imaging.evaluation.pairs.pairs import Pair, find_pairs
from mtf_imaging.evaluation.pairs.rules import Scoring, choose_description
from mtf_imaging.evaluation.pairs.running import parallel_run
from mtf_imaging.evaluation.pairs.score_pairs import ScoredPair, score_pairs, write_scores
from mtf_imaging.evaluation.pairs.volumes import add_volumes
from mtf_imaging.evaluation.volume_scores.case import CaseScore
from mtf_imaging.files.output_folder import check_outside, writing_to
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.record import read_record
from mtf_imaging.files.provenance.runs import TrainedRun


def score_folders(
    reference_dir: str | Path,
    prediction_dir: str | Path,
    output_dir: str | Path,
    workers: int | None = None,
    progress: bool = True,
    volume_dir: str | Path | None = None,
    scoring: Scoring | None = None,
) -> list[CaseScore]:
    """Scores each prediction at the resolution and orientation of its reference.

    The results are `metrics.json`, `metrics.csv` and `report.html`.

    Args:
      reference_dir: folder of references; see `find_pairs`.
      prediction_dir: folder of predictions.
      output_dir: folder to write to, created if missing.
      workers: number of processes, each of up to 0.5 GiB; default: one per core, fewer if memory is short.
      progress: whether to show a progress bar and print the tables.
      volume_dir: folder of the images for the report, for instance CTs; see `add_volumes`. The images then determine
        the voxel sizes.
      scoring: how the files are read and scored; None uses the description that `choose_description` finds.

    Returns:
      The scores, in the natural order of the cases.

    Raises:
      DataError: a file cannot be used or has no partner, the output folder lies in the reference folder, or
        `choose_description` refuses the labels.
      ConfigError: another process is writing to the output folder.
    """
    scoring = scoring or Scoring(choose_description(reference_dir))
    ending = scoring.description.file_ending
    image_format = (format_by_ending(ending) if is_picture_ending(ending) else None) or SCORED_FORMATS
    pairs = add_volumes(find_pairs(reference_dir, prediction_dir, image_format), volume_dir)
    check_outside(Path(output_dir), Path(reference_dir))
    with writing_to(output_dir):
        scored = score_pairs(pairs, len(pairs), parallel_run(workers), "score", scoring, progress)
        provenance = _provenance(Path(prediction_dir), pairs, scored)
        return write_scores(output_dir, scored, progress, scoring.description, provenance)


def _provenance(prediction_dir: Path, pairs: Sequence[Pair], scored: Sequence[ScoredPair]) -> Provenance:
    """Returns the provenance of scores, with the networks if `predict` recorded that it wrote all predictions."""
    record, digests = read_record(prediction_dir), {one.score.key: one.files["prediction"].sha256 for one in scored}
    names = {pair.key: Path(os.path.relpath(pair.prediction, prediction_dir)).as_posix() for pair in pairs}
    origins = [record.provenance_of(name, digests[key]) for key, name in names.items()]
    first = origins[0] or {}
    if any(one is None or any(one.get(name) != first.get(name) for name in ("runs", "rules")) for one in origins):
        return Provenance()
    try:
        return Provenance(runs=tuple(map(TrainedRun.from_json, first["runs"])), rules=dict(first["rules"]))
    except (KeyError, TypeError, ValueError):  # written by another release
        return Provenance()
