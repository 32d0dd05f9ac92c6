"""Segmentation and scoring of the cases in a folder."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from mtf_imaging.data.cases.cases import Case, natural_key
from mtf_imaging.data.cases.prediction_names import check_evaluated, with_output_format
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.cropping import warn_of_cropped_labels
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window
from mtf_imaging.data.reading.open_sources import open_mask
from mtf_imaging.data.records.conversion import case_geometries
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.case_report.case_picture import picture_pixels
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.mask_rules.choice import RulesReport, save_rules
from mtf_imaging.evaluation.mask_rules.choosing import choose_rules
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.pairs.running import in_thread, parallel_run
from mtf_imaging.evaluation.pairs.score_pairs import score_pairs, write_scores
from mtf_imaging.evaluation.scoring.case import TOLERANCE_MM, CaseScore
from mtf_imaging.evaluation.scoring.compact_labels import read_compact
from mtf_imaging.evaluation.scoring.overlap import check_scored, dice_text, label_overlaps
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.contained import contained
from mtf_imaging.files.output_folder import check_outside, writing_to
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.reading import memory_named
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.networks import is_alone
from mtf_imaging.kinds.output import PICTURES, PREDICTIONS, check_kept, check_predictions, write_picture
from mtf_imaging.kinds.volumes.segment.images import find_cases_of, open_case
from mtf_imaging.kinds.volumes.segment.predict import PredictProbabilities, segment_source, write_segmentation


def evaluate(
    input_dir: str | Path,
    output_dir: str | Path,
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities,
    window: Window = DEFAULT_WINDOW,
    num_pictures: int = 3,
    progress: bool = True,
    cleanup: Cleanup = AS_FOUND,
    known: SpacingTable = NO_TABLE,
    cases: Sequence[Case] | None = None,
    description: Description = LITS,
    surface_tolerance: float = TOLERANCE_MM,
    provenance: Provenance | None = None,
    store_rules: Path | None = None,
) -> list[CaseScore]:
    """Segments and scores the cases of a folder, and writes the results.

    Each case is scored at its own resolution while the next one is segmented. The output folder receives
    `predictions/segmentation-N.nii.gz` or `predictions/segmentation-N.ome.zarr` in the geometry of each volume, and
    `pictures/case-N.png` for the first cases.
    After the last case, `metrics.json`, `metrics.csv` and `report.html` are written. Evaluating the same cases again
    replaces these files.

    Args:
      input_dir: folder of labeled cases.
      output_dir: folder to write to, created if missing.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network, image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`, or one
          probability per mask if the description has regions.
      window: for LiTS, (low, high) in HU, as in training; other descriptions contain the intensity schemes.
      num_pictures: the number of cases that get a picture.
      progress: whether to show a progress bar and print the tables.
      cleanup: rules that the predicted labels must obey before they are scored and written.
      known: voxel sizes of files whose headers lack them.
      cases: the cases to evaluate, as returned by `cases_to_evaluate`; None evaluates all cases of the input folder.
      description: the meaning of the labels and of the channels, and the rules of the scores.
      surface_tolerance: the tolerance of the surface Dice in mm.
      provenance: the network and the rules of the predictions; None if they are not known.
      store_rules: the folder for rules that are chosen on these cases; None chooses no rules. If rules are chosen, the
          predictions and scores are computed without rules.

    Returns:
      The scores.

    Raises:
      DataError: `cases_to_evaluate` refuses the folders, or a case cannot be used.
      ConfigError: another process is writing to the output folder, the tolerance is not positive, or `cleanup` has
          liver rules for other labels.
    """
    scoring = Scoring(description, known, surface_tolerance)
    cleanup = AS_FOUND if store_rules else cleanup.resolve(description)
    output_dir, provenance = Path(output_dir), provenance or Provenance()
    if cases is None:
        cases = cases_to_evaluate(input_dir, output_dir, known=known, description=description)

    def segment(number: int, case: Case) -> Pair:
        source = open_case(case, known, description)
        reference = read_compact(open_mask(case.labels, source, description))
        check_scored(case.labels, reference, description)  # before the network computes the case
        warn_of_cropped_labels(case.labels, reference, source.geometry, sampling, description)
        prediction = contained(output_dir, PREDICTIONS, case.prediction_name)
        is_shown = number < num_pictures
        with memory_named(case.volume):
            labels = segment_source(source, sampling, predict_probabilities, window, description)
            written = write_segmentation(prediction, labels, source, cleanup, is_shown, provenance)
        if is_shown:
            picture = contained(output_dir, PICTURES, f"case-{case.key}.png")
            title = f"case {case.key}: Dice {dice_text(label_overlaps(written, reference, description))}"
            with contextlib.closing(source):
                image, spacing = source.channels[0], source.geometry.spacing
                pixels = picture_pixels(image, reference, written, spacing, title, description)
            write_picture(picture, pixels)
        return Pair(case.key, prediction, case.labels, case.volume, case.channels)

    faults = CaseFaults(at_once=not is_alone())

    written = []

    def pairs() -> Iterator[Pair]:
        for number, case in enumerate(cases):
            with faults.collect(case.key, case.volume):
                pair = segment(number, case)
            if case.key not in faults:
                written.append(pair)
                yield pair

    with writing_to(output_dir, PREDICTIONS, PICTURES):
        scored = score_pairs(pairs(), len(cases), in_thread, "evaluate", scoring, progress, faults)
        rules = RulesReport(tuple(cleanup.names))
        if store_rules is not None:
            choice = choose_rules(written, parallel_run(), scoring)
            save_rules(store_rules, choice)
            rules = RulesReport(choice=choice)
        return write_scores(output_dir, scored, progress, description, provenance, rules)


def cases_to_evaluate(
    input_dir: str | Path,
    output_dir: str | Path,
    only: Collection[str] | None = None,
    known: SpacingTable = NO_TABLE,
    description: Description = LITS,
    output_format: str | None = None,
) -> list[Case]:
    """Finds the cases to evaluate and checks them and the output folder before a network is built.

    Args:
      input_dir: folder of labeled cases.
      output_dir: folder that `evaluate` will write to.
      only: the keys of the cases to evaluate, for instance the held-out cases of a fold; None selects all cases.
      known: voxel sizes of files whose headers lack them.
      description: the channels and labels of the network.
      output_format: the file format of the predictions, a key of `OUTPUT_FORMATS` other than DICOM-SEG; None for the
          format of each volume.

    Returns:
      The cases.

    Raises:
      DataError: the input is missing; the header of a volume cannot be read; or the output folder contains results of
          other cases, is inside the input folder, or is the folder of a run.
      ConfigError: there is no such output format, or evaluate does not write predictions in this format.
    """
    check_evaluated(output_format)
    cases = with_output_format(find_cases_of(input_dir, description), output_format)
    if only is not None:
        cases = _select_cases(cases, only, input_dir)
    _check_output(Path(output_dir), Path(input_dir), cases)
    case_geometries(cases, known, description)
    return cases


def _select_cases(cases: list[Case], only: Collection[str], input_dir: str | Path) -> list[Case]:
    unknown = sorted({*only} - {case.key for case in cases}, key=natural_key)
    if unknown:
        raise DataError(
            f"{input_dir}: the folder has no case {', '.join(unknown)}. "
            "Fix: name the folder that holds these cases, or the splits file that matches the folder."
        )
    return [case for case in cases if case.key in only]


def _check_output(output_dir: Path, input_dir: Path, cases: list[Case]) -> None:
    """Raises DataError if the output folder contains references, a run, or results of other cases."""
    check_outside(output_dir, input_dir)
    check_no_run(output_dir)
    ours = {contained(output_dir, PREDICTIONS, case.prediction_name) for case in cases}
    pictures = [contained(output_dir, PICTURES, f"case-{case.key}.png") for case in cases]
    inputs = (path for case in cases for path in (*case.channels, case.labels) if path)
    check_kept(inputs, [*ours, *pictures], "results")
    others = f"cases that {input_dir} does not have, or in another format"
    check_predictions(output_dir, ours, "cases", others, pictures=pictures)
