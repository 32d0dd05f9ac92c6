"""Volumes that a network segments on the voxel grid of its training, each in its own geometry."""

import contextlib
import dataclasses
import functools
import logging
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.cropping import warn_of_cropped_volume
from mtf_imaging.data.records.splits import held_out_keys
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.data.sampling.own_size import OwnSize
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, NONE
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.inference.averages import of_mirrored
from mtf_imaging.inference.network import Network
from mtf_imaging.inference.uncertainty import with_entropy
from mtf_imaging.kinds.all_kinds import reading
from mtf_imaging.kinds.batches import Steps
from mtf_imaging.kinds.facts import VOLUMES, Facts
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.networks import trained_network
from mtf_imaging.kinds.predicted import Planned, PredictedImages
from mtf_imaging.kinds.prediction_record import PredictionFiles
from mtf_imaging.kinds.volumes.evaluate import CaseScoring, ReadCase, cases_to_evaluate
from mtf_imaging.kinds.volumes.segment.maps import MapChoice
from mtf_imaging.kinds.volumes.segment.planning import label_segments, map_choice, plan_predictions, prediction_files
from mtf_imaging.kinds.volumes.segment.segmenter import Segmentation, Segmenter
from mtf_imaging.kinds.volumes.segment.submission import how_to_submit
from mtf_imaging.kinds.volumes.trained import description_of_facts, sampling_of_facts, window_of_run
from mtf_imaging.settings.values import check_flips

if TYPE_CHECKING:
    from mtf_imaging.settings.inference import EvaluateSettings
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns

_logger = logging.getLogger(__name__)


class Images(PredictedImages[Case, ReadCase, Segmentation]):
    """Cases that a network segments on the voxel grid of its training.

    Args:
      run: the folder of the run.
      facts: the facts of the run, whose patch is the default size of the sliding window.
      settings: the settings of the job.
      is_scored: whether the volumes have labels, with which their probabilities are compared.

    Raises:
      ConfigError: a setting is invalid or has no effect on volumes, or there is a folds file but no fold.
      DataError: the facts file of the run is damaged, or the fold does not exist.
    """

    kind, noun, nouns = VOLUMES, "case", "cases"
    description: Description | None  # None for a custom data set

    def __init__(self, run: Path, facts: Facts | None, settings: Inference, is_scored: bool = False) -> None:
        self._run, self._facts, self._settings = run, facts, settings
        self._maps = MapChoice(probabilities=True) if is_scored else map_choice(settings)
        self._sliding_window = window_of_run(None if facts is None else facts.patch, settings)
        self.description = self._description = description_of_facts(facts, run)
        self._rules_folder = run.parent if settings.ensemble else run  # the folds of an ensemble share their rules
        self.cleanup = settings.cleanup.resolve(self._description, self._rules_folder)
        if settings.choose_cleanup and settings.cleanup != AS_FOUND:
            raise ConfigError(
                f"choose_cleanup chooses the rules, but cleanup is {', '.join(self.cleanup.names) or NONE}. Fix: leave "
                "one of them out.",
                ["choose_cleanup", "cleanup"],
            )
        if settings.choose_cleanup:  # on predictions without rules
            self.cleanup = AS_FOUND
        self._only = held_out_keys(settings.fold, settings.splits_file, run)

    @functools.cached_property
    def segmenter(self) -> Segmenter:
        """How the volumes are segmented."""
        own = self._settings
        sampling = sampling_of_facts(self._facts, own.resolution, own.spacing)
        if isinstance(sampling, OwnSize) and self._sliding_window is not None:
            sampling = dataclasses.replace(sampling, multiple=1, least=self._sliding_window.size)
        return Segmenter(sampling, own.window, self._description, own.spacing_table, self._maps, self.cleanup)

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[Case]:
        own = self._settings
        with reading(input_dir, self.kind, "input_dir"):
            options = self._only, own.spacing_table, self._description, own.output_format
            return cases_to_evaluate(input_dir, output_dir, *options)

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> Planned[Case]:
        own = self._settings
        with reading(input_path, self.kind, "input"):
            planned = plan_predictions(Path(input_path), Path(output_path), overwrite, own, self._description)
        if own.uncertainty and not self._maps.several:
            _logger.info("uncertainty: one network without flips has an entropy, but no mutual information")
        return planned

    def prediction_files(self, pairs: list[tuple[Case, Path]], input_path: Path, output_path: Path) -> PredictionFiles:
        return prediction_files(pairs, input_path, output_path, self._maps)

    def network(self, settings: "NetworkBuilder", runs: "TrainedRuns", images: Sequence[Case]) -> Network:
        settings = dataclasses.replace(settings, window=self._sliding_window, change=self._with_entropy)
        flips = [AXIS_NAMES.index(name) for name in check_flips(self._settings.flips)]
        grids = self.segmenter.sampling.grids
        if is_any := not grids:
            with contextlib.closing(self.segmenter.open(images[0])) as source:
                grids = (self.segmenter.grid(source.geometry),)
        network = trained_network(settings, runs, grids, flips, any_size=is_any)
        return of_mirrored(network, self._facts.reversed_axes) if self._facts else network

    def _with_entropy(self, network: Network) -> Network:
        """Returns the network of an image or a window with the entropy, if there are maps of it."""
        own = self._description
        return with_entropy(network, own.has_regions, own.probabilities) if self._maps.uncertainty else network

    def steps(self, network: Network) -> Steps[Case, ReadCase, Segmentation]:
        def infer(cases: Sequence[Case], read: Sequence[ReadCase]) -> list[Segmentation]:
            pairs = zip(cases, read, strict=True)
            return [
                self.segmenter.segment(one.source, network, self.begun.get(case.key), one.small) for case, one in pairs
            ]

        def read(case: Case) -> ReadCase:
            source = self.segmenter.open(case)
            return ReadCase(source, self.segmenter.read_small(source))

        return Steps(operator.attrgetter("volume"), read, infer, is_small=lambda one: one.small is not None)

    def send(self, result: Segmentation) -> None:
        result.send()

    def write(
        self, image: Case, read: ReadCase, result: Segmentation, outputs: Sequence[Path], provenance: Provenance | None
    ) -> list[dict[str, Any]]:
        labels, *maps = outputs
        warn_of_cropped_volume(image.volume, read.source.geometry.cropped(result.crop), self.segmenter.sampling)
        segments = label_segments([labels], self._description, self._settings.label_codes)
        result.write(labels, provenance, segments)
        if result.maps is not None:
            result.maps.write(maps, provenance)
        return []

    def instructions(self, written: Sequence[Path]) -> str:
        return how_to_submit(written) if self._settings.submission else ""

    def scoring(self, own: "EvaluateSettings", provenance: Provenance) -> CaseScoring:
        folder = self._rules_folder if self._settings.choose_cleanup else None
        return CaseScoring(own, self.segmenter, folder, provenance)
