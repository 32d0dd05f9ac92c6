"""Segment and score the cases of a folder."""

from collections.abc import Collection, Sequence
from pathlib import Path

from mtf_imaging.data.cases.cases import Case, find_cases, natural_key
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.data.nifti.images import read_geometry, read_labels, read_volume, write_labels
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.sampling.cropping import warn_of_cropped_labels
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.in_thread import in_thread
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.score_pairs import score_pairs, write_scores
from mtf_imaging.evaluation.report.case_picture import write_picture
from mtf_imaging.evaluation.scoring.case import CaseScore
from mtf_imaging.evaluation.scoring.overlap import dice_text, label_overlaps
from mtf_imaging.evaluation.segment.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.segment.predict import PredictProbabilities, check_outside, segment_volume
from mtf_imaging.files.atomic import is_partial
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.reading import memory_named
from mtf_imaging.files.run_folder import check_no_run

_RESULTS = ("metrics.json", "metrics.csv", "report.html")


def evaluate(
    input_dir: str | Path,
    output_dir: str | Path,
    sampling: Sampling,
    predict_probabilities: PredictProbabilities,
    window: Window = DEFAULT_WINDOW,
    num_pictures: int = 3,
    progress: bool = True,
    cleanup: Cleanup = AS_FOUND,
    known: SpacingTable = NO_TABLE,
    cases: Sequence[Case] | None = None,
) -> list[CaseScore]:
    """Segments each case, scores it at its own resolution while the next is segmented, and writes what came out.

    Written are `predictions/segmentation-N.nii.gz` in the geometry of each volume, `pictures/case-N.png` of the first
    cases, and, when all cases are done, `metrics.json`, `metrics.csv` and `report.html`. Evaluating the same cases
    again replaces them.

    Args:
      input_dir: folder of labelled cases.
      output_dir: folder to write to; made where it is missing.
      sampling: the voxels that the network works on.
      predict_probabilities: the network, image `[x, y, z, 1]` in 0..1 -> class probabilities `[x, y, z, classes]`.
      window: (low, high) in HU, as in training.
      num_pictures: how many cases get a picture.
      progress: whether to show a progress bar and print the tables.
      cleanup: what is removed of what the network finds, before it is scored and written.
      known: voxel sizes of files whose headers have lost them.
      cases: the cases to evaluate, as `cases_to_evaluate` returns them; None for all cases of the input folder.

    Returns:
      The scores.

    Raises:
      DataError: as `cases_to_evaluate`; or a case cannot be used.
      ConfigError: another process is writing to the output folder.
    """
    output_dir = Path(output_dir)
    if cases is None:
        cases = cases_to_evaluate(input_dir, output_dir, known=known)

    def segment(number: int, case: Case) -> Pair:
        volume = read_volume(case.volume, known)
        reference = read_labels(case.labels, volume)
        warn_of_cropped_labels(case.labels, reference, volume.geometry, sampling)
        with memory_named(case.volume):
            labels = segment_volume(volume, sampling, predict_probabilities, window, cleanup)
        prediction = output_dir / "predictions" / case.prediction_name
        write_labels(prediction, labels, volume.geometry)
        if number < num_pictures:
            picture = output_dir / "pictures" / f"case-{case.key}.png"
            title = f"case {case.key}: Dice {dice_text(label_overlaps(labels, reference))}"
            write_picture(picture, volume.hu, reference, labels, volume.geometry.spacing, title)
        return Pair(case.key, prediction, case.labels, case.volume)

    pairs = (segment(number, case) for number, case in enumerate(cases))
    with writing_to(output_dir, "predictions", "pictures"):
        scored = score_pairs(pairs, len(cases), in_thread, "evaluate", progress, known)
        return write_scores(output_dir, scored, progress)


def cases_to_evaluate(
    input_dir: str | Path,
    output_dir: str | Path,
    only: Collection[str] | None = None,
    known: SpacingTable = NO_TABLE,
) -> list[Case]:
    """Finds the cases to evaluate, and checks them and the output folder before a network is built.

    Args:
      input_dir: as for `evaluate`.
      output_dir: as for `evaluate`.
      only: the keys of the cases to evaluate, for instance the held-out cases of a fold; None for all.
      known: as for `evaluate`.

    Returns:
      The cases.

    Raises:
      DataError: the input is missing, or the header of a volume cannot be read; or the output folder holds results of
        other cases, lies in the input folder, or is the folder of a run.
    """
    cases = find_cases(input_dir) if only is None else _those(find_cases(input_dir), only, input_dir)
    _check_output(Path(output_dir), Path(input_dir), cases)
    for case in cases:
        read_geometry(case.volume, known)
    return cases


def _those(cases: list[Case], only: Collection[str], input_dir: str | Path) -> list[Case]:
    unknown = sorted({*only} - {case.key for case in cases}, key=natural_key)
    if unknown:
        raise DataError(
            f"{input_dir}: has no case {', '.join(unknown)}, which is asked for. "
            "Fix: the folder, or the file of splits, that they are in."
        )
    return [case for case in cases if case.key in only]


def _check_output(output_dir: Path, input_dir: Path, cases: list[Case]) -> None:
    """Refuses an output folder that holds references, a run, or results of other cases."""
    check_outside(output_dir, input_dir)
    check_no_run(output_dir)
    predictions = output_dir / "predictions"
    ours = {case.prediction_name for case in cases}
    foreign = sorted(p.name for p in predictions.glob("*.nii*") if p.name not in ours and not is_partial(p))
    if foreign:
        raise DataError(
            f"{predictions}: holds {len(foreign)} prediction(s) of cases that {input_dir} does not have, such as "
            f"{foreign[0]}. Fix: write to another folder, or delete this one."
        )
    there = [output_dir / name for name in _RESULTS if (output_dir / name).exists()]
    if there and not any((predictions / name).exists() for name in ours):
        raise DataError(
            f"{there[0]}: already exists and belongs to other cases: {predictions} holds no predictions of these "
            "cases. Fix: write to another folder, or delete the old results."
        )
