"""Scores a folder of segmentations from any program against a folder of references."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.listing.image_formats import SCORED_FORMATS, format_by_ending, is_picture_ending
from mtf_imaging.evaluation.pairs.pairs import Pair, find_pairs
from mtf_imaging.evaluation.pairs.rules import choose_description
from mtf_imaging.evaluation.pairs.score_pairs import ScoredPair, score_pairs, write_scores
from mtf_imaging.evaluation.pairs.volumes import add_volumes
from mtf_imaging.evaluation.scoring.case import TOLERANCE_MM, CaseScore, check_tolerance
from mtf_imaging.files.output_folder import check_outside, writing_to
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.record import read_record
from mtf_imaging.files.provenance.runs import TrainedRun
from mtf_imaging.files.workers import default_workers, in_parallel

WORKER_BYTES = 1 << 29  # a CT of 512 x 512 x 1024 voxels needs 0.15 GiB, or more with many lesions


def score_folders(
    reference_dir: str | Path,
    prediction_dir: str | Path,
    output_dir: str | Path,
    workers: int | None = None,
    progress: bool = True,
    volume_dir: str | Path | None = None,
    known: SpacingTable = NO_TABLE,
    rules: str | None = None,
    dataset_json: str | Path | None = None,
    surface_tolerance: float = TOLERANCE_MM,
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
      known: voxel sizes of files whose headers lack them.
      rules: "lits" or "any"; see `choose_description`.
      dataset_json: the description of the labels; see `choose_description`.
      surface_tolerance: the surface Dice tolerance in mm.

    Returns:
      The scores, in the natural order of the cases.

    Raises:
      DataError: a file cannot be used or has no partner, the output folder lies in the reference folder, or
        `choose_description` refuses the labels.
      ConfigError: another process is writing to the output folder, or the tolerance is not positive.
    """
    check_tolerance(surface_tolerance)
    description = choose_description(reference_dir, rules, dataset_json)
    is_picture = is_picture_ending(description.file_ending)
    image_format = (format_by_ending(description.file_ending) if is_picture else None) or SCORED_FORMATS
    pairs = add_volumes(find_pairs(reference_dir, prediction_dir, image_format), volume_dir)
    check_outside(Path(output_dir), Path(reference_dir))
    run = functools.partial(in_parallel, workers=workers or default_workers(WORKER_BYTES))
    with writing_to(output_dir):
        scored = score_pairs(pairs, len(pairs), run, "score", progress, known, description, surface_tolerance)
        return write_scores(output_dir, scored, progress, description, _provenance(Path(prediction_dir), pairs, scored))


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
