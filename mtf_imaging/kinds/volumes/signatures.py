"""The signatures of a network that segments volumes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.intensities.schemes import SMALLEST_SCALE
from mtf_imaging.data.intensities.tensors import image_statistics, scale_channels
from mtf_imaging.data.intensities.window import Window
from mtf_imaging.data.modality import is_ct, value_beyond
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.engine.meshes.portable import ensure_shape, is_portable
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, Cleanup, as_cleanup
from mtf_imaging.evaluation.export import program
from mtf_imaging.evaluation.export.networks import (
    Network,
    TrainedNetworks,
    at_least_float32,
    average_flips,
    average_networks,
)
from mtf_imaging.evaluation.export.signature import ExportedKind, Field, Signature, checked, grid_name, with_default
from mtf_imaging.evaluation.export.sliding import slide
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.kinds.export import ExportedRun
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.volumes import operations
from mtf_imaging.kinds.volumes.segment.images import volume_intensities
from mtf_imaging.kinds.volumes.trained import description_of_facts, sampling_of_facts, window_of_run
from mtf_imaging.settings.values import check_flips

VOLUME = "volume"
_PROGRAM_NOTE = (
    f"{program.NAME} segments a NIfTI file, whose header and values it repairs or refuses as predict does. It needs "
    "nibabel, too."
)
_RULES_NOTE = (
    "predict applies these rules to the components of its labels: {}. The signatures do not apply them; the entry "
    "'cleanup' of input.json describes them."
)
_THRESHOLDS_NOTE = "The labels follow from the probabilities with these rules: {}."
_APPLIED_NOTE = f"{program.NAME} applies them by default, which needs SciPy."


class VolumeSignatures(ExportedKind):
    """The signatures of a network that segments volumes.

    There is one signature for each grid of the network, which returns probabilities, and one signature that takes a
    volume at its own voxel size and returns its labels.

    Args:
      networks: the trained networks, for the grids of the sampling or for the sliding window.
      sampling: the voxel grid of the network, or its grids.
      description: the channels of the image, and the labels or regions that the network predicts.
      window: (low, high) in HU for LiTS; other descriptions contain the intensity schemes.
      flips: names of the axes to flip.
      sliding_window: the window that slides over the grids; None to compute a whole grid at once.
      cleanup: the rules of `predict`. Labels follow its thresholds; the card describes its rules for components.

    Raises:
      ConfigError: the window is larger than a grid.
      ShapeError: the network does not return the probabilities of the labels or regions.
    """

    def __init__(
        self,
        networks: TrainedNetworks,
        sampling: AnySampling,
        description: Description = LITS,
        window: Window | None = None,
        flips: Sequence[str] = (),
        sliding_window: SlidingWindow | None = None,
        cleanup: Cleanup = AS_FOUND,
    ) -> None:
        self._sampling, self._description = sampling, description
        self._sliding_window, self._cleanup = sliding_window, cleanup
        self.intensities = volume_intensities(description, window)
        networks.check_probabilities(description.num_outputs, "regions" if description.has_regions else "classes")
        axes = [AXIS_NAMES.index(name) for name in flips]
        self._networks = {grid: average_networks(self._of_grid(networks, grid, axes)) for grid in sampling.grids}
        self._num_channels = len(description.channels)
        self._need_statistics = any(intensity.needs_statistics for intensity in self.intensities)

    def _of_grid(self, networks: TrainedNetworks, grid: Grid, flips: Sequence[int]) -> list[Network]:
        """Returns the network of each run for a grid, which averages over flips of the grid or of each window."""
        window = self._sliding_window
        size = grid if window is None else window.size
        averaged = [average_flips(network, flips) for network in networks.of_size(size)]
        if window is None:
            return averaged
        result = networks.results(size)
        return [slide(network, grid, window, result) for network in averaged]

    def signatures(self) -> list[Signature]:
        grids = {grid: self._on_grid(grid, network) for grid, network in self._networks.items()}
        return [*with_default(grids), self._of_volume()]

    def _on_grid(self, grid: Grid, network: Network) -> Signature:
        classes = self._description.num_outputs
        statistics = self._statistics_fields() if self._need_statistics else ()

        def compute(image: tf.Tensor, **given: tf.Tensor) -> dict[str, tf.Tensor]:
            values = operations.repair_values(self._with_channels(image), self._description.channels)
            pair = (given["offset"], given["scale"]) if given else None
            probabilities = self._run(network, values, pair)
            return {"probabilities": probabilities, "labels": self._labels(probabilities)}

        outputs = (
            Field("probabilities", tf.float32, (*grid, classes), (*AXIS_NAMES, "classes"), self._classes_meaning()),
            Field("labels", tf.uint8, grid, AXIS_NAMES, self._labels_meaning()),
        )
        meaning = "Segments an image that is already on the voxel grid of the network."
        return Signature(grid_name(grid), meaning, (self._image(grid), *statistics), outputs, compute)

    def _of_volume(self) -> Signature:
        mm = self._sampling.spacing
        anywhere = (None, None, None)
        inputs = [self._image(anywhere)]
        if mm is not None:
            meaning = "The voxel size of the image in mm along x, y and z."
            inputs.append(Field("spacing", tf.float64, (3,), ("axes",), meaning))

        def compute(image: tf.Tensor, spacing: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
            values = operations.repair_values(self._with_channels(image), self._description.channels)
            if spacing is not None:
                is_size = tf.reduce_all((spacing > 0) & tf.math.is_finite(spacing))
                spacing = checked(spacing, is_size, "the spacing needs positive sizes in mm, but is", spacing)
            margins = None
            if self._description.crops_to_nonzero:
                values, margins = operations.crop_to_nonzero(values)
            shape = tf.unstack(tf.shape(values, tf.int64)[:3])
            statistics = image_statistics(values, self.intensities) if self._need_statistics else None
            branches = [
                lambda grid=grid, network=network: self._segment(values, shape, spacing, grid, network, statistics)
                for grid, network in self._networks.items()
            ]
            if len(branches) == 1:
                labels = branches[0]()
            else:
                labels = tf.switch_case(operations.choose_grid(shape, spacing, self._sampling), branches)
            return {"labels": labels if margins is None else tf.pad(labels, margins)}

        meaning = "Resamples an image of any size to the grid of the network, segments it, and resamples back."
        outputs = (Field("labels", tf.uint8, anywhere, AXIS_NAMES, self._labels_meaning()),)
        return Signature(VOLUME, meaning, tuple(inputs), outputs, compute)

    def _segment(
        self,
        values: tf.Tensor,
        shape: Sequence[tf.Tensor],
        spacing: tf.Tensor | None,
        grid: Grid,
        network: Network,
        statistics: tuple[tf.Tensor, tf.Tensor] | None,
    ) -> tf.Tensor:
        """Returns the labels of a volume on its own voxels, computed by the network for one grid."""
        channels = self._description.channels
        beyond = tf.constant([value_beyond(name) for name in channels], tf.float32)
        spans = operations.grid_spans(shape, spacing, grid, self._sampling.spacing)
        sampled = operations.round_hu(operations.resample_linear(values, spans, beyond), channels)
        sampled = ensure_shape(sampled, [*grid, self._num_channels])
        probabilities = self._run(network, sampled, statistics)
        back, is_inside = operations.resample_back(probabilities, spans, shape)
        return tf.where(is_inside, self._labels(back), tf.zeros([], tf.uint8))

    def _run(self, network: Network, values: tf.Tensor, statistics: tuple[tf.Tensor, tf.Tensor] | None) -> tf.Tensor:
        return tf.cast(at_least_float32(network(scale_channels(values, self.intensities, statistics))), tf.float32)

    def _with_channels(self, image: tf.Tensor) -> tf.Tensor:
        return image[..., tf.newaxis] if self._num_channels == 1 else image

    def _labels(self, probabilities: tf.Tensor) -> tf.Tensor:
        """Converts probabilities to labels, uint8; see `Description.to_labels`."""
        factors, order = self._cleanup.factors(self._description), self._description.region_order
        if factors is not None:
            probabilities = probabilities * factors
        if order is None:
            return tf.cast(tf.argmax(probabilities, axis=-1, output_type=tf.int32), tf.uint8)
        labels = tf.zeros(tf.shape(probabilities)[:-1], tf.uint8)
        for index, value in enumerate(order):
            labels = tf.where(probabilities[..., index] > 0.5, tf.constant(value, tf.uint8), labels)
        return labels

    def _image(self, sizes: tuple[int | None, ...]) -> Field:
        names = self._description.channels
        values = ["Hounsfield units" if is_ct(name) else f"values of {name} as in its file" for name in names]
        meaning = "The image in RAS+ orientation: x from left to right, y from back to front, z from feet to head. "
        if len(names) == 1:
            return Field("image", tf.float32, sizes, AXIS_NAMES, f"{meaning}It has {values[0]}.")
        listed = "; ".join(f"channel {number}: {value}" for number, value in enumerate(values))
        return Field("image", tf.float32, (*sizes, len(names)), (*AXIS_NAMES, "channels"), f"{meaning}{listed}.")

    def _statistics_fields(self) -> tuple[Field, Field]:
        unused = "any number", "any number; the scheme needs none"
        pairs = [intensity.scheme.statistics or unused for intensity in self.intensities]
        fields = []
        for name, meanings in zip(("offset", "scale"), zip(*pairs, strict=True), strict=True):
            listed = "; ".join(
                f"{channel}: {meaning}" for channel, meaning in zip(self._description.channels, meanings, strict=True)
            )
            more = "" if name == "offset" else f". A scale of {SMALLEST_SCALE:g} or less must be replaced by 1"
            text = f"For each channel, a number of the whole image before it was resampled. {listed}{more}."
            fields.append(Field(name, tf.float32, (self._num_channels,), ("channels",), text))
        return fields[0], fields[1]

    def _classes_meaning(self) -> str:
        own = self._description
        if own.has_regions:
            return f"The probability of each region: {', '.join(own.masks)}."
        return f"The probability of each label: background, {', '.join(own.labels)}."

    def _labels_meaning(self) -> str:
        listed = ", ".join(f"{value} {name}" for name, value in self._description.labels.items())
        return f"The label of each voxel: 0 background, {listed}."

    def facts(self) -> dict:
        own, mm = self._description, self._sampling.spacing
        return {
            "orientation": "RAS+",
            "grids": [list(grid) for grid in self._sampling.grids],
            "spacing": None if mm is None else [*mm],
            "channels": list(own.channels),
            "intensities": [*map(str, self.intensities)],
            "labels": dict(own.labels),
            "regions": {name: list(values) for name, values in own.masks.items()} if own.has_regions else None,
            "sliding_window": None if self._sliding_window is None else dataclasses.asdict(self._sliding_window),
            "thresholds": self._cleanup.thresholds or None,
            "cleanup": self._cleanup.resolved or None,
        }

    def notes(self) -> list[str]:
        mm = self._sampling.spacing
        grids = " or ".join(" x ".join(map(str, grid)) for grid in self._sampling.grids)
        if mm is None:
            place = f"The grid of {grids} voxels covers the whole field of view of each image, whatever its voxel size."
        else:
            place = (
                f"The grid of {grids} voxels of {format_spacing(mm)} mm lies in the center of the field of view. "
                "Voxels of the grid beyond the image are "
                f"{', '.join(f'{value_beyond(name)} ({name})' for name in self._description.channels)}."
            )
        if self._description.crops_to_nonzero:
            place += " The image is first cropped to the box of the voxels that are not 0 in some channel."
        window = []
        if self._sliding_window is not None:
            size = " x ".join(map(str, self._sliding_window.size))
            window = [f"The network computes windows of {size} voxels, which slide over the grid as in predict."]
        names = [rule["rule"] for rule in self._cleanup.resolved]
        rules = [_RULES_NOTE.format(", ".join(names))] if names else []
        if rules and not is_portable():
            rules[0] += f" {_APPLIED_NOTE}"
        return [
            place,
            *window,
            f"The signature '{VOLUME}' resamples an image to the grid, and the probabilities back, as predict does.",
            *([] if is_portable() else [_PROGRAM_NOTE]),
            *rules,
            *([_THRESHOLDS_NOTE.format(", ".join(thresholds))] if (thresholds := self._cleanup.thresholds) else []),
        ]

    def files(self) -> dict[str, bytes]:
        # The program loads a SavedModel.
        return {} if is_portable() else {program.NAME: program.program_text().encode()}


def exported(run: ExportedRun, facts: Facts | None) -> tuple[TrainedNetworks, VolumeSignatures]:
    """Builds the networks of a run, with their signatures; see `Kind.export`."""
    check_flips(run.flips, axis_names=AXIS_NAMES)
    sampling = sampling_of_facts(facts, run.own.resolution, run.own.spacing)
    description = description_of_facts(facts, run.runs[0])
    window = window_of_run(None if facts is None else facts.patch, run.own)
    rules_folder = Path(run.own.model_dir) if run.own.ensemble else run.runs[0]  # the folds of an ensemble share rules
    cleanup = as_cleanup(run.own.cleanup).resolve(description, rules_folder)
    networks = run.networks(sampling.grids if window is None else [window.size], description)
    return networks, VolumeSignatures(networks, sampling, description, run.own.window, run.flips, window, cleanup)
