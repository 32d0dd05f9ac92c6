"""Scores predictions in files, for the commands `score` and `evaluate`."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from mtf_imaging.data.cases.cases import natural_key
from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.data.images.compact_labels import CompactLabels, read_compact
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.sources import ImageSource, StoredSource
from mtf_imaging.data.images.voxel_values import any_labeled, warn_of_empty
from mtf_imaging.data.listing.image_formats import is_dicom_seg
from mtf_imaging.data.reading.open_sources import open_image_source, open_mask, open_segmentation, open_volume
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.stored_choice import NO_RULES, RulesReport
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import LITS_SCORING, Scoring
from mtf_imaging.evaluation.pairs.running import Run, attempt
from mtf_imaging.evaluation.volume_report.image_planes import shows_ct
from mtf_imaging.evaluation.volume_report.overlay import Overlays, make_overlays
from mtf_imaging.evaluation.volume_report.page import write_report
from mtf_imaging.evaluation.volume_scores.case import CaseScore, score_case
from mtf_imaging.evaluation.volume_scores.metrics_files import scores_text, write_metrics
from mtf_imaging.evaluation.volume_scores.overlap import check_scored, dice_text
from mtf_imaging.evaluation.volume_scores.voxels import slabs, whole
from mtf_imaging.files.case_errors import CaseFaults, case_errors
from mtf_imaging.files.provenance.digests import Stamp
from mtf_imaging.files.provenance.provenance import Provenance

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredPair:
    """The result of one case, as a worker returns it.

    Attributes:
      score: the scores of the case.
      overlays: the slices of the case for the report.
      files: the names and digests of the files of the case.
    """

    score: CaseScore
    overlays: Overlays
    files: dict[str, Stamp] = dataclasses.field(default_factory=dict)


def score_pairs(
    pairs: Iterable[Pair],
    total: int,
    run: Run,
    name: str,
    scoring: Scoring = LITS_SCORING,
    progress: bool = True,
    faults: CaseFaults | None = None,
) -> list[ScoredPair]:
    """Scores pairs of predictions and references.

    Args:
      pairs: the cases; may be a generator that predicts one case after the other.
      total: the number of cases.
      run: the function that maps `score_pair` over the pairs: `parallel_run` or `in_thread`.
      name: the label of the progress bar.
      scoring: how cases are read and scored.
      progress: whether to show a progress bar.
      faults: the errors of cases that `pairs` skipped; None if it does not skip any.

    Returns:
      The scored pairs, in the natural order of their keys.

    Raises:
      DataError: cases cannot be used; all of them are reported together, after the others are scored.
    """
    scored, faults, keys = [], faults or CaseFaults(), []
    with tqdm(total=total, desc=name, unit="case", disable=not progress, dynamic_ncols=True) as bar:
        for pair, one in run(functools.partial(attempt, score_pair, scoring=scoring), pairs):
            keys.append(pair.key)
            if isinstance(one, DataError):
                faults.add(pair.key, one)
            else:
                scored.append(one)
                bar.set_postfix_str(f"{pair.key}: {dice_text(one.score.overlaps)}", refresh=False)
            bar.update()
    faults.check(sorted({*keys, *faults}, key=natural_key))
    return sorted(scored, key=lambda one: natural_key(one.score.key))


def score_pair(pair: Pair, scoring: Scoring = LITS_SCORING) -> ScoredPair:
    """Reads and scores one case. Files are read in slabs, to save memory."""
    description = scoring.description
    with case_errors(pair.reference):
        case = _read(pair, scoring)
        try:
            overlays = _overlays(case, description)
        except DataError as error:
            if case.image is None:
                raise
            _warn_of_image(pair, description, error)
            case = _read(dataclasses.replace(pair, volume=None), scoring)
            overlays = _overlays(case, description)
        labels, geometry = (case.prediction, case.reference), case.reference_geometry
        options = description, scoring.surface_tolerance
        score = score_case(pair.key, *labels, case.geometry.spacing, geometry, *options)
        return ScoredPair(score, overlays, pair.stamps())  # the operating system still has the files in memory


def read_labels(pair: Pair, scoring: Scoring) -> tuple[CompactLabels, CompactLabels, tuple[float, float, float]]:
    """Reads the labels of a case.

    Returns:
      The labels of the prediction and of the reference in canonical axes, and the voxel size in mm.

    Raises:
      DataError: a file cannot be used.
    """
    with case_errors(pair.reference):
        case = _read(pair, scoring)
        if case.image is not None:
            case.image.close()
        return case.prediction, case.reference, case.geometry.spacing


def write_scores(
    output_dir: str | Path,
    scored: list[ScoredPair],
    progress: bool = True,
    description: Description = LITS,
    provenance: Provenance | None = None,
    rules: RulesReport = NO_RULES,
) -> list[CaseScore]:
    """Writes `metrics.json`, `metrics.csv` and `report.html`, and prints the tables.

    Args:
      output_dir: folder to write to, created if missing.
      scored: the results of all cases.
      progress: whether to print the tables.
      description: the meaning of the labels and channels, and the scoring rules.
      provenance: the networks and rules of the predictions; None if they are not known.
      rules: the rules that were applied to the predictions, or chosen on them.

    Returns:
      The scores.
    """
    scores, files = [one.score for one in scored], {one.score.key: one.files for one in scored}
    fields = (provenance or Provenance()).with_files(files, scoring=description.rules).as_json()
    write_metrics(output_dir, scores, description, fields, rules.fields)
    write_report(output_dir, scores, [one.overlays for one in scored], description, fields, rules)
    if progress:
        print(scores_text(scores, description))
        if rules.choice is not None:
            print(f"\n{rules.choice.text()}")
    return scores


@dataclass(frozen=True)
class _Case:
    """A case that has been read.

    Attributes:
      prediction: labels of the prediction in canonical axes.
      reference: labels of the reference in canonical axes.
      geometry: the geometry of the image; without an image, the geometry of the reference.
      reference_geometry: the geometry of the reference's file.
      image: the image that the report shows, or None.
    """

    prediction: CompactLabels
    reference: CompactLabels
    geometry: Geometry
    reference_geometry: Geometry
    image: ImageSource | None


def _read(pair: Pair, scoring: Scoring) -> _Case:
    """Reads the labels of a case, and opens its image.

    If there is an image, its header defines the geometry, as in all other commands, because mask headers are wrong more
    often.
    """
    image, description = None, scoring.description
    if pair.volume:
        try:
            image = _open_image(pair.volume, scoring)
            mask = open_mask(pair.reference, image, description)
            reference = read_compact(mask)
        except DataError as error:
            # The scores do not need the image. If the reference is faulty, reading it again below raises the error.
            _warn_of_image(pair, description, error)
            image = None
    if image is None:
        mask = _open_alone(pair, scoring)
        reference = read_compact(mask)
    if not any(any_labeled(reference[region], description) for region in slabs(whole(reference.shape))):
        check_scored(pair.reference, reference, description)
        warn_of_empty(pair.reference, description)
    frame = image or mask
    prediction = read_compact(open_mask(pair.prediction, frame, description))
    return _Case(prediction, reference, frame.geometry, mask.geometry, image)


def _open_alone(pair: Pair, scoring: Scoring) -> StoredSource:
    """Opens a reference without its image.

    A DICOM-SEG file has only the planes with labels, so the prediction states the voxel grid, too.
    """
    options = scoring.known, scoring.description
    if not is_dicom_seg(pair.reference):
        return open_segmentation(pair.reference, *options)
    if is_dicom_seg(pair.prediction):
        return open_segmentation(pair.reference, *options, [pair.prediction])
    return open_mask(pair.reference, open_segmentation(pair.prediction, *options), scoring.description)


def _open_image(path: Path, scoring: Scoring) -> ImageSource:
    """Opens a CT, or an image of any modality, whose first channel the report shows."""
    description = scoring.description
    if description.rules == LITS_RULES:
        return open_volume(path, scoring.known)
    # In nnU-Net's naming scheme, each channel has its own file, but a PNG or TIFF may contain all channels.
    if "_0000." in path.name and path.with_name(path.name.replace("_0000.", "_0001.")).exists():
        first = {"channels": description.channels[:1], "intensities": description.intensities[:1]}
        description = dataclasses.replace(description, **first)
    return open_image_source([path], description, scoring.known)


def _overlays(case: _Case, description: Description) -> Overlays:
    """Creates the slices of a case.

    Raises:
      DataError: the image cannot be used.
    """
    affine = case.geometry.canonical_affine
    with contextlib.nullcontext() if case.image is None else contextlib.closing(case.image):
        shown = case.image and case.image.channels[0]
        return make_overlays(shown, case.reference, case.prediction, affine, description)


def _warn_of_image(pair: Pair, description: Description, error: DataError) -> None:
    what = "CT" if shows_ct(description) else "image"
    _log.warning("%s: the report of case %s does not show this %s: %s", pair.volume, pair.key, what, error)
