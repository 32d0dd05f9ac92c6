"""The scoring of a folder of cases."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.data.cases.cases import Case, natural_key
from mtf_imaging.data.cases.prediction_names import check_evaluated, with_output_format
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.compact_labels import CompactLabels, read_compact
from mtf_imaging.data.images.cropping import CroppedLabels, warn_of_cropped_labels
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.reading.open_sources import open_mask
from mtf_imaging.data.records.conversion import case_geometries
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.choosing import choose_rules
from mtf_imaging.evaluation.cleanup.stored_choice import RulesReport, save_rules
from mtf_imaging.evaluation.cleanup.thresholds import pooled_reliability, save_open_voxels
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import Scoring as PairScoring
from mtf_imaging.evaluation.pairs.running import in_thread, parallel_run
from mtf_imaging.evaluation.pairs.score_pairs import ScoredPair, score_pairs, write_scores
from mtf_imaging.evaluation.volume_report.case_picture import picture_pixels
from mtf_imaging.evaluation.volume_scores.case import CaseScore
from mtf_imaging.evaluation.volume_scores.overlap import check_scored, dice_text, label_overlaps
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.contained import contained
from mtf_imaging.files.output_folder import check_outside
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.output import PICTURES, PREDICTIONS, check_results, write_picture
from mtf_imaging.kinds.predicted import ResultFiles, Scoring
from mtf_imaging.kinds.volumes.segment.images import find_cases_of
from mtf_imaging.kinds.volumes.segment.segmenter import Input, Segmentation, Segmenter
from mtf_imaging.settings.inference import EvaluateSettings


class ReadCase(NamedTuple):
    """A case to segment.

    Attributes:
      source: the image.
      small: the input of the network; None if it is so large that it is read later.
      reference: the labels; None without labels.
    """

    source: ImageSource
    small: Input | None
    reference: CompactLabels | None = None


class CaseScoring(Scoring[Case, ReadCase, Segmentation]):
    """The scoring of a folder of cases. Each case is scored in a thread while the next one is segmented.

    Args:
      own: the settings of the job.
      segmenter: how the cases are segmented.
      rules_folder: the folder for rules that are chosen on these cases; None chooses no rules.
      provenance: the network and the rules of the predictions.
    """

    def __init__(
        self, own: EvaluateSettings, segmenter: Segmenter, rules_folder: Path | None, provenance: Provenance
    ) -> None:
        self._own, self._segmenter, self._rules_folder, self._provenance = own, segmenter, rules_folder, provenance
        self._output_dir = Path(own.output_dir)
        self._rules = PairScoring(segmenter.description, segmenter.known)

    def files(self, image: Case) -> ResultFiles:
        return case_files(image, self._output_dir)

    def read(self, image: Case) -> ReadCase:
        own, source = self._segmenter, self._segmenter.open(image)
        reference = read_compact(open_mask(image.labels, source, own.description))
        check_scored(image.labels, reference, own.description)  # before the network computes the case
        return ReadCase(source, own.read_small(source), reference)

    def score(self, image: Case, read: ReadCase, result: Segmentation, files: ResultFiles) -> Pair:
        own, reference, place = self._segmenter.description, read.reference, read.source.geometry
        cropped = CroppedLabels(place, self._segmenter.sampling, own, result.crop)
        warn_of_cropped_labels(image.labels, reference, cropped)
        written = result.write(files.prediction, self._provenance, keep=files.picture is not None)
        assert result.maps is not None, "evaluation computes probabilities"
        save_open_voxels(open_voxels_file(image, self._output_dir), result.maps.probabilities(), reference, own)
        if files.picture is not None:
            title = f"case {image.key}: Dice {dice_text(label_overlaps(written, reference, own))}"
            with contextlib.closing(read.source) as source:
                pixels = picture_pixels(source.channels[0], reference, written, place.spacing, title, own)
            write_picture(files.picture, pixels)
        return evaluated_pair(image, self._output_dir)

    def gather(self, made: Iterator[Pair | None], total: int, faults: CaseFaults) -> list[ScoredPair]:
        pairs = (pair for pair in made if pair is not None)
        return score_pairs(pairs, total, in_thread, "evaluate", self._rules, self._own.progress, faults)

    def report(self, images: Sequence[Case], scored: list[ScoredPair]) -> list[CaseScore]:
        own = self._segmenter
        pairs, choice = [evaluated_pair(case, self._output_dir) for case in images], None
        if self._rules_folder is not None:
            choice = choose_rules(pairs, parallel_run(), self._rules)
            save_rules(self._rules_folder, choice)
        reliability = pooled_reliability(pairs, own.description)
        rules = RulesReport(tuple(own.cleanup.names), choice, reliability)
        return write_scores(self._output_dir, scored, self._own.progress, own.description, self._provenance, rules)


def case_files(case: Case, output_dir: Path) -> ResultFiles:
    """Returns the segmentation and the picture that evaluation writes for a case.

    Raises:
      DataError: the name of the case leads out of the folder.
    """
    prediction = contained(output_dir, PREDICTIONS, case.prediction_name)
    return ResultFiles(prediction, contained(output_dir, PICTURES, f"case-{case.key}.png"))


def open_voxels_file(case: Case, output_dir: Path) -> Path:
    """Returns the file of the voxels of a case whose label thresholds can change."""
    return contained(output_dir, "calibration", f"case-{case.key}.npz")


def evaluated_pair(case: Case, output_dir: Path) -> Pair:
    """Returns a labeled case with the files that evaluation wrote for it."""
    assert case.labels is not None, "evaluation refuses other cases"
    prediction, opened = case_files(case, output_dir).prediction, open_voxels_file(case, output_dir)
    return Pair(case.key, prediction, case.labels, case.volume, case.channels, opened)


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
    files = [case_files(case, output_dir) for case in cases]
    inputs = [path for case in cases for path in (*case.channels, case.labels) if path]
    check_results(files, output_dir, inputs, input_dir, "cases", "*.*")
