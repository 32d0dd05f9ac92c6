"""Combines all augmentations of training samples.

Every draw depends only on (seed, sample number), so a resumed run draws the same numbers as an uninterrupted run.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from mtf_imaging.data.augmentation.corruption import corrupt, sampled_voxels
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.intensity import apply_gamma, shift_classes
from mtf_imaging.data.augmentation.lesions import Lesions, add_lesions
from mtf_imaging.data.augmentation.mirror import draw_mirrored
from mtf_imaging.data.augmentation.moves import Moves
from mtf_imaging.data.augmentation.noise import add_noise
from mtf_imaging.data.augmentation.normals import normal_values
from mtf_imaging.data.augmentation.regions import bounds_of, check_region, crop, shape_of, static_sizes
from mtf_imaging.data.augmentation.rounding import add
from mtf_imaging.data.augmentation.softening import Softening
from mtf_imaging.data.augmentation.warp import draw_warp
from mtf_imaging.data.description.description import LITS_RULES, Description
from mtf_imaging.data.intensities.schemes import WINDOW
from mtf_imaging.data.intensities.value_ranges import WINDOWED, ValueRanges
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, Region, whole_region
from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import check_parameters, parameter

# Largest displacement of control points, as a fraction of the distance between them, for which a three-dimensional
# B-spline does not fold (Choi and Lee 2000, "Injectivity conditions of 2D and 3D uniform cubic B-spline functions").
_NO_FOLD = 0.4
_positive = functools.partial(parameter, least=0)
_share = functools.partial(parameter, least=0, most=1)
# Options that use the labels of the liver and its lesions.
_OF_LITS = ("lesions", "class_shift", "class_shift_sd", "corruption", "corruption_sd")


@dataclass(frozen=True)
class Augmentation:
    """Changes training samples at random; the default changes nothing. docs/evidence/augmentation.md shows each option.

    The options are applied in this order: lesions, flips, half turn, warp, blur, low resolution, class shift,
    corruption, gamma, contrast, brightness, noise. The random numbers of an option do not depend on the other options.
    All channels are moved alike; their intensities change independently. Liver and lesion options (lesions, class
    shift, corruption) need LiTS labels.

    In the descriptions, the unit of a channel is the width of its window, which is mapped to 0..1, or its standard
    deviation in the case if its values are not clipped. Voxels of 0 stay 0 in a channel whose z-score ignores them.

    Attributes:
      lesions: probability that synthetic lesions are painted into the liver, in both the image and the labels.
      lesion_count: largest number of synthetic lesions, at least 1.
      lesion_diameter: (lowest, highest) length of the longest axis of a synthetic lesion, in voxels of the record.
      lesion_contrast: (lowest, highest) amount by which a synthetic lesion is darkened, in units of the window.
      flips: axes that are mirrored with probability 1/2 each, for example `("x", "y")`.
      half_turn: probability of a rotation by 180 degrees about z.
      rotation: largest angle about each axis in degrees: one number, or three for x, y and z. The rotation treats
        voxels as cubes.
      zoom: the image is scaled by a factor from 1 / (1 + zoom)..1 + zoom.
      translation: largest translation, as a fraction of each axis's length.
      elastic: standard deviation of control point displacements, as a fraction of each axis's length.
      elastic_points: number of control points along each axis.
      warp: probability of the combined rotation, zoom, translation and elastic displacement.
      blur: probability that a channel is blurred.
      blur_sd: (lowest, highest) standard deviation of the blur in voxels, drawn for each axis.
      low_resolution: probability that a channel is sampled at fewer voxels, and interpolated to the old ones.
      low_resolution_size: (lowest, highest) factor of the number of voxels along each axis.
      low_resolution_axes: the axes along which there are fewer voxels.
      class_shift, class_shift_sd: mean and standard deviation of the fraction by which lesions are darkened and all
        other voxels are brightened.
      corruption, corruption_sd: mean and standard deviation of the fraction of voxels outside the liver that is
        set to zero.
      gamma: values are raised to a random power from 1 / (1 + gamma)..1 + gamma; values that are not in 0..1 are mapped
        to it first.
      contrast: differences from the middle of the window, or from the mean, are multiplied by a random factor from
        1 - contrast..1 + contrast.
      brightness: a random value from -brightness..brightness is added to the image, in units of the channel.
      noise: standard deviation of Gaussian noise, in units of the channel.
      multiscale_noise: largest standard deviation of noise at several scales, in units of the channel.
      multiscale_noise_scales: scales of this noise, in voxels.
      multiscale_noise_probability: probability that a sample gets this noise.
    """

    flips: tuple[str, ...] = parameter((), choices=tuple(AXIS_NAMES), can_be_empty=True)
    brightness: float = _positive(0.0)
    contrast: float = _share(0.0)
    noise: float = _positive(0.0)
    half_turn: float = _share(0.0)
    warp: float = _share(1.0)
    rotation: float | tuple[float, float, float] = parameter(0.0, least=0, most=180)
    zoom: float = _positive(0.0)
    translation: float = _share(0.0)
    elastic: float = _positive(0.0)
    elastic_points: int = parameter(7, least=4)
    class_shift: float = _share(0.0)
    class_shift_sd: float = _positive(0.0)
    gamma: float = _positive(0.0)
    multiscale_noise: float = _positive(0.0)
    multiscale_noise_scales: tuple[int, ...] = (1, 4)
    multiscale_noise_probability: float = _share(1.0)
    corruption: float = _share(0.0)
    corruption_sd: float = _positive(0.0)
    lesions: float = _share(0.0)
    lesion_count: int = 3
    lesion_diameter: tuple[float, float] = parameter((4.0, 16.0), least=1)
    lesion_contrast: tuple[float, float] = _share((0.03, 0.08))
    blur: float = _share(0.0)
    blur_sd: tuple[float, float] = (0.5, 1.0)
    low_resolution: float = _share(0.0)
    low_resolution_size: tuple[float, float] = parameter((0.5, 1.0), most=1)
    low_resolution_axes: tuple[str, ...] = parameter(tuple(AXIS_NAMES), choices=tuple(AXIS_NAMES))

    def __post_init__(self) -> None:
        check_parameters(self)
        for name in ("lesion_diameter", "lesion_contrast", "blur_sd", "low_resolution_size"):
            low, high = getattr(self, name)
            if low > high:
                raise ConfigError(f"Augmentation.{name} = {(low, high)}: is not ascending. Fix: exchange the numbers.")

        widest = _NO_FOLD / (self.elastic_points - 3) / 2  # draws are clipped to two standard deviations
        if self.elastic > widest:
            raise ConfigError(
                f"Augmentation.elastic {self.elastic}: with {self.elastic_points} control points along each axis the "
                f"volume could fold over. Fix: set elastic to at most {widest:.3g}, or use fewer elastic_points."
            )

    def check(self, description: Description) -> None:
        """Checks that a data set has the structures that the options need.

        Args:
          description: the labels and the intensity schemes of the data set.

        Raises:
          ConfigError: an option needs the liver and its lesions in a window, but the data set has other labels or
            another intensity scheme.
        """
        is_lits = description.rules == LITS_RULES
        if is_lits and all(intensity.kind == WINDOW for intensity in description.intensities):
            return
        for name in _OF_LITS:
            if getattr(self, name):
                what = (
                    f"the intensity scheme is '{description.intensities[0]}'"
                    if is_lits
                    else f"the labels of the data set are {', '.join(description.labels)}"
                )
                raise ConfigError(
                    f"Augmentation.{name} {getattr(self, name)}: this option changes the liver and its lesions in a CT "
                    f"with a window, but {what}. Fix: set Augmentation.{name} to 0."
                )

    @property
    def needs_whole_labels(self) -> bool:
        """Whether `in_region` needs the labels of the whole sample, as lesions and corruption do."""
        return bool(self.lesions or self.corruption or self.corruption_sd)

    def source_bounds(
        self, region: Region, sizes: Grid, seed: int, sample: tf.Tensor, within: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Returns the voxels of the stored sample that a region of the augmented sample needs.

        Args:
          region: a slice along x, y and z of the augmented sample; it may be empty.
          sizes: size of the sample in voxels along x, y, z.
          seed: the run's seed.
          sample: Tensor[] int64, the sample number, counted from the start of the run.
          within: for a sample that is a patch of a stored image: Tensor[3, 2] int64, the start and stop voxels of the
            image, counted from the first voxel of the patch. A warp fills voxels from beyond the patch. None for a
            sample that is a whole image.

        Returns:
          Tensor[3, 2] int64, the start and stop voxels along x, y and z. An empty region does not need voxels. Around a
          patch, the positions can be negative.
        """
        region = check_region(region, sizes)
        if 0 in shape_of(region):
            return tf.zeros([3, 2], tf.int64)
        return self._moves(sizes, Draws(seed, sample), within).source_bounds(self._softening.regions(region, sizes)[1])

    def __call__(self, image, labels, seed: int, sample, ranges: ValueRanges = WINDOWED) -> tuple:
        """Changes one sample.

        Args:
          image: Tensor[x, y, z, channels] float32, with a static shape.
          labels: Tensor[x, y, z], with 0 for the background; in LiTS, 1 liver and 2 lesion.
          seed: the run's seed.
          sample: Tensor[] int64, the sample number, counted from the start of the run.
          ranges: the values of the channels; by default 0..1.

        Returns:
          (image, labels) with the same shapes; the values of the image are within their bounds.
        """
        sizes = static_sizes(image)
        region = whole_region(sizes)
        source = bounds_of(region)
        return self.in_region(image, labels, seed, sample, region=region, source=source, sizes=sizes, ranges=ranges)

    def in_region(
        self,
        image: tf.Tensor,
        labels: tf.Tensor,
        seed: int,
        sample: tf.Tensor,
        *,
        region: Region,
        source: tf.Tensor,
        sizes: Grid,
        ranges: ValueRanges = WINDOWED,
        within: tf.Tensor | None = None,
        labels_start: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Changes a region of one sample: `__call__(...)[region]`, bit for bit.

        Args:
          image: Tensor[x, y, z, channels] float32, the voxels of `source`. Only the number of channels must be static.
          labels: Tensor[x, y, z], the labels of `source`, or of the whole sample if `needs_whole_labels`.
          seed: the run's seed.
          sample: Tensor[] int64, the sample number, counted from the start of the run.
          region: a slice along x, y and z of the augmented sample; it may be empty.
          source: Tensor[3, 2] int64, the bounds of the image in the stored sample: those that `source_bounds` returns
            for the same arguments, or bounds that include them.
          sizes: size of the sample in voxels along x, y, z.
          ranges: the values of the channels in the whole sample; by default 0..1.
          within: the bounds of the stored image around a patch; see `source_bounds`.
          labels_start: Tensor[3] int64, the position of the first voxel of `labels` if `needs_whole_labels`; None for
            the first voxel of the sample. The labels must cover the sample and `source`.

        Returns:
          (image, labels) of the region, with static shapes.
        """
        region = check_region(region, sizes)
        source, channels = tf.cast(source, tf.int64), image.shape[3]
        if 0 in shape_of(region):
            return tf.zeros([*shape_of(region), channels]), tf.zeros(shape_of(region), labels.dtype)
        draws = Draws(seed, sample)
        moves = self._moves(sizes, draws, within)
        stored = labels
        if self.needs_whole_labels:
            start = tf.zeros([3], tf.int64) if labels_start is None else labels_start
            labels = tf.slice(stored, source[:, 0] - start, source[:, 1] - source[:, 0])
            # Labels beyond a patch are ignored, so that all regions of a patch draw the same lesions.
            stored = stored if labels_start is None else tf.slice(stored, -start, sizes)
        if self.lesions:
            lesions = Lesions(self.lesions, self.lesion_count, self.lesion_diameter, self.lesion_contrast)
            image, labels = add_lesions(image, labels, source[:, 0], stored, lesions, draws)
        _, wide = self._softening.regions(region, sizes)
        image, labels = moves.move(image, labels, source, wide, ranges.beyond)
        masked = None if ranges is WINDOWED else (image == 0) & ranges.keep_zero
        if self.blur or self.low_resolution:
            labels, masked = (x if x is None else crop(x, bounds_of(wide)[:, 0], region) for x in (labels, masked))
            image = self._softening.apply(image, region, sizes, draws)
        if self.class_shift or self.class_shift_sd:
            image = shift_classes(image, labels, self.class_shift, self.class_shift_sd, draws)
        if self.corruption or self.corruption_sd:
            sampled = moves.labels_at(stored, sampled_voxels(sizes))
            image = corrupt(image, labels, sampled, self.corruption, self.corruption_sd, draws, sizes, region)
        if self.gamma:
            image = apply_gamma(image, self.gamma, draws, ranges)
        seeds = _first_seeds(draws)
        if self.contrast:
            factor = tf.random.stateless_uniform([channels], seeds[3], 1 - self.contrast, 1 + self.contrast)
            image = add((image - ranges.center) * factor, ranges.center)
        if self.brightness:
            shift = tf.random.stateless_uniform([channels], seeds[4], -self.brightness, self.brightness)
            image = add(image, shift * ranges.unit)
        if self.noise:
            values = normal_values(seeds[5], sizes, region, channels)
            image = add(image, values * self.noise * ranges.unit)
        if self.multiscale_noise:
            amount = (self.multiscale_noise, self.multiscale_noise_scales, self.multiscale_noise_probability)
            image = add_noise(image, *amount, draws, ranges.unit, sizes, region)
        image = tf.clip_by_value(image, ranges.low, ranges.high)
        return (image if masked is None else tf.where(masked, 0.0, image)), labels

    @property
    def _softening(self) -> Softening:
        return Softening(*(getattr(self, name) for name in Softening._fields))

    def _moves(self, sizes: Grid, draws: Draws, within: tf.Tensor | None = None) -> Moves:
        """Draws the moves of one sample."""
        mirrored = None
        if self.flips or self.half_turn:
            mirrored = draw_mirrored(self.flips, self.half_turn, _first_seeds(draws), draws)
        options = (_angles(self.rotation), self.zoom, self.translation, self.elastic, self.elastic_points)
        if not self.warp or not any((*options[0], *options[1:4])):
            return Moves(sizes, mirrored, None, (), within)
        return Moves(sizes, mirrored, draws.chance("warp", self.warp), draw_warp(draws, sizes, *options), within)


def _angles(rotation: float | Sequence[float]) -> tuple[float, ...]:
    """Returns the largest angles about x, y and z."""
    return tuple(rotation) if isinstance(rotation, tuple | list) else (rotation,) * len(AXIS_NAMES)


def _first_seeds(draws: Draws) -> tf.Tensor:
    """Returns the seeds of flips, contrast, brightness and noise, unchanged since the first release."""
    return tf.random.experimental.stateless_split(draws.key, 6)
