"""The intensity scheme of a channel, which maps the values of an image to network input.

The scheme follows from the channel name, as in nnU-Net: "CT" has a window, most other names a z-score. Schemes
are written as short strings, for instance "window -512 512" or "z-score".
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.window import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.errors import DataError
from mtf_imaging.spelling import did_you_mean

WINDOW = "window"
Z_SCORE = "z-score"
NONZERO_Z_SCORE = "z-score of nonzero voxels"
PERCENTILES = "percentiles"
RESCALE = "rescale_to_0_1"
RGB = "rgb_to_0_1"
NONE = "none"
KINDS = (WINDOW, Z_SCORE, NONZERO_Z_SCORE, PERCENTILES, RESCALE, RGB, NONE)

PERCENTAGES = (0.5, 99.5)  # the percentiles to which "percentiles" clips
_RGB_MAXIMUM = 255.0
SMALLEST_SCALE = 1e-8  # a channel with a smaller spread is constant

# Channel names, in lower case, that select a scheme other than the z-score. nnU-Net's documentation uses
# rescale_to_0_1; its earlier releases accept rescale_0_1.
_OF_CHANNELS = {
    "ct": WINDOW,
    "nonorm": NONE,
    "zscore": Z_SCORE,
    "rescale_0_1": RESCALE,
    RESCALE: RESCALE,
    RGB: RGB,
}
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
_WINDOW = re.compile(rf"window\s*[(\s]\s*{_NUMBER}(?:\s*,\s*|\s+){_NUMBER}\s*\)?")


@dataclass(frozen=True)
class ChannelStatistics:
    """The distribution of values in one channel of a case.

    Attributes:
      mean, sd: mean and standard deviation of all voxels.
      nonzero_mean, nonzero_sd: the same for nonzero voxels; both 0 if there are none.
      low_percentile, high_percentile: percentiles 0.5 and 99.5 of all voxels.
      minimum, maximum: the extreme values.
    """

    mean: float
    sd: float
    nonzero_mean: float
    nonzero_sd: float
    low_percentile: float
    high_percentile: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Scaling:
    """A map from values to network input, `clip((value - offset) / scale, low, high)`.

    Attributes:
      offset, scale: the affine map.
      low, high: the bounds of the result; infinite if nothing is clipped.
      keep_zero: whether a value of 0 stays 0.
    """

    offset: float = 0.0
    scale: float = 1.0
    low: float = -math.inf
    high: float = math.inf
    keep_zero: bool = False

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Returns the scaled values as a new float32 array."""
        scaled = np.array(values, np.float32)
        zeros = scaled == 0 if self.keep_zero else None
        scaled -= np.float32(self.offset)
        scaled /= np.float32(self.scale)
        if math.isfinite(self.low) or math.isfinite(self.high):
            np.clip(scaled, np.float32(self.low), np.float32(self.high), out=scaled)
        if zeros is not None:
            scaled[zeros] = 0
        return scaled


@dataclass(frozen=True)
class Intensity:
    """The intensity scheme of one channel.

    Attributes:
      kind: one of `KINDS`:
        "window": `window` is mapped to 0..1 and clipped;
        "z-score": the mean of the case becomes 0 and its standard deviation 1;
        "z-score of nonzero voxels": the same for nonzero voxels; other voxels stay 0;
        "percentiles": percentiles 0.5 to 99.5 of the case are mapped to 0..1 and clipped;
        "rescale_to_0_1": the minimum and the maximum of the case are mapped to 0..1;
        "rgb_to_0_1": 0..255 is mapped to 0..1;
        "none": the values are unchanged.
      window: (low, high) of a window; None for other kinds.
    """

    kind: str
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(_unknown(self.kind))
        if (self.window is None) == (self.kind == WINDOW):
            what = "has no bounds" if self.window is None else f"has the window {self.window}"
            raise DataError(
                f"intensity '{self.kind}' {what}. Fix: give (low, high) for the kind 'window' and for no other kind."
            )
        if self.window is not None:
            object.__setattr__(self, "window", check_window(self.window))

    def __str__(self) -> str:
        return format_intensity(self)

    @property
    def needs_statistics(self) -> bool:
        """Whether the scheme depends on the case's values."""
        return self.kind in (Z_SCORE, NONZERO_Z_SCORE, PERCENTILES, RESCALE)

    def scaling(self, statistics: ChannelStatistics | None = None) -> Scaling:
        """Returns the map from the values of one case to network input.

        Args:
          statistics: the distribution of the channel in the whole case. It may be None if `needs_statistics` is False.

        Returns:
          The map. A constant channel is mapped to 0.
        """
        if self.kind == WINDOW:
            return _between(*self.window)
        if self.kind == RGB:
            return _between(0.0, _RGB_MAXIMUM)
        if self.kind == NONE:
            return Scaling()
        if statistics is None:
            raise DataError(f"intensity '{self}' needs the statistics of the case. Fix: compute channel_statistics.")
        if self.kind == Z_SCORE:
            return Scaling(statistics.mean, _nonzero(statistics.sd))
        if self.kind == NONZERO_Z_SCORE:
            return Scaling(statistics.nonzero_mean, _nonzero(statistics.nonzero_sd), keep_zero=True)
        if self.kind == PERCENTILES:
            return _between(statistics.low_percentile, statistics.high_percentile)
        return _between(statistics.minimum, statistics.maximum)

    def apply(self, values: np.ndarray, statistics: ChannelStatistics | None = None) -> np.ndarray:
        """Applies the scheme to values of a case.

        Args:
          values: the values, or a part of them, of any shape.
          statistics: see `scaling`.

        Returns:
          A new float32 array.
        """
        return self.scaling(statistics).apply(values)

    def check(self, statistics: ChannelStatistics, where: str) -> None:
        """Raises DataError if the scheme does not suit a case's values.

        Args:
          statistics: the distribution of the channel in the case.
          where: the file of the channel, for the message.
        """
        if self.kind == RGB and not 0 <= statistics.minimum <= statistics.maximum <= _RGB_MAXIMUM:
            raise DataError(
                f"{where}: intensity '{RGB}' needs values of 0 to 255, but the image has {statistics.minimum:g} to "
                f"{statistics.maximum:g}. Fix: use '{RESCALE}' or '{Z_SCORE}'."
            )


def channel_intensity(channel: str) -> Intensity:
    """Returns the intensity scheme of a channel, which follows from its name as in nnU-Net.

    >>> [str(channel_intensity(name)) for name in ("CT", "T1w", "noNorm")]
    ['window -512 512', 'z-score', 'none']
    """
    kind = _OF_CHANNELS.get(channel.casefold(), Z_SCORE)
    return Intensity(kind, DEFAULT_WINDOW if kind == WINDOW else None)


def parse_intensity(text: str, where: str = "intensities") -> Intensity:
    """Parses the string of an intensity scheme.

    >>> parse_intensity("window -160 240")
    Intensity(kind='window', window=(-160.0, 240.0))

    Args:
      text: one of `KINDS`, with two bounds after "window", or nnU-Net's name for a scheme, such as "CT".
        Case does not matter.
      where: the file or the setting that contains the string, for the message.

    Returns:
      The scheme.

    Raises:
      DataError: the string is not the name of a scheme, or a window is empty.
    """
    if isinstance(text, str):
        short = " ".join(text.casefold().split())
        if short in _OF_CHANNELS:
            return channel_intensity(short)
        if short in KINDS and short != WINDOW:
            return Intensity(short)
        if match := _WINDOW.fullmatch(short):
            try:
                return Intensity(WINDOW, (float(match[1]), float(match[2])))
            except DataError as error:
                raise DataError(f"{where}: '{text}': {error}") from error
    raise DataError(f"{where}: {_unknown(text)}")


def parse_intensities(texts: Iterable[str], channels: tuple[str, ...], where: str) -> tuple[Intensity, ...]:
    """Parses the intensity schemes of all channels.

    Args:
      texts: the string of each channel's scheme.
      channels: the channel names.
      where: the file or the setting that contains the strings, for messages.

    Returns:
      The schemes, one per channel.

    Raises:
      DataError: a string is not the name of a scheme, or the number of strings differs from the number of channels.
    """
    schemes = tuple(parse_intensity(text, where) for text in texts)
    if len(schemes) != len(channels):
        raise DataError(
            f"{where}: {len(schemes)} intensities, but {len(channels)} channel(s) ({', '.join(channels)}). "
            "Fix: give one intensity per channel."
        )
    return schemes


def format_intensity(intensity: Intensity) -> str:
    """Formats a scheme as a string that `parse_intensity` accepts."""
    if intensity.window is None:
        return intensity.kind
    return " ".join([WINDOW, *(f"{bound:.15g}" for bound in intensity.window)])


def _between(low: float, high: float) -> Scaling:
    return Scaling(low, _nonzero(high - low), 0.0, 1.0)


def _nonzero(scale: float) -> float:
    return scale if scale > SMALLEST_SCALE else 1.0


def _unknown(text: object) -> str:
    what = "has no bounds" if text == WINDOW else "is unknown"
    hint = did_you_mean(text, KINDS) if isinstance(text, str) and text != WINDOW else ""
    return (
        f"intensity {text!r} {what}.{hint} "
        f"Fix: use 'window LOW HIGH', {', '.join(repr(kind) for kind in KINDS[1:-1])} or '{NONE}'."
    )
