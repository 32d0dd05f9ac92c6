"""The intensity scheme of a channel, which maps the values of an image to network input.

The scheme follows from the channel name, as in nnU-Net: "CT" has a window, most other names a z-score. Schemes
are written as short strings, for instance "window -512 512", "clip -160 240 mean 80 sd 40" or "z-score".
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtf_imaging.data.intensities.scaling import Scaling
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.errors import DataError
from mtf_imaging.spelling import did_you_mean

WINDOW = "window"
CLIP = "clip"
Z_SCORE = "z-score"
NONZERO_Z_SCORE = "z-score of nonzero voxels"
PERCENTILES = "percentiles"
RESCALE = "rescale_to_0_1"
RGB = "rgb_to_0_1"
NONE = "none"

SMALLEST_SCALE = 1e-8  # a channel with a smaller spread is constant
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
_WINDOW = re.compile(rf"window\s*[(\s]\s*{_NUMBER}(?:\s*,\s*|\s+){_NUMBER}\s*\)?")
_CLIP = re.compile(rf"clip {_NUMBER} {_NUMBER} mean {_NUMBER} sd {_NUMBER}")

_UNBOUNDED, _TO_0_1 = Scaling(), Scaling(low=0.0, high=1.0)
_RGB = 0.0, 255.0


@dataclass(frozen=True)
class Scheme:
    """A kind of intensity scheme.

    Attributes:
      place: a function of the `Intensity` and of the image's `ChannelStatistics`, or the same numbers as tensors. It
        returns the value that becomes 0 and the difference that becomes 1.
      form: the `Scaling` without its offset and scale.
      statistics: the meaning of offset and scale in the card of an exported network; None if they do not depend on the
        image.
      names: channel names, in lower case, that select this scheme.
      values: the lowest and the highest value that an image may have; None for any.
    """

    place: Callable[[Any, Any], tuple[Any, Any]]
    form: Scaling = _UNBOUNDED
    statistics: tuple[str, str] | None = None
    names: tuple[str, ...] = ()
    values: tuple[float, float] | None = None


def _between(low: object, high: object) -> tuple[Any, Any]:
    return low, high - low


SCHEMES = {
    WINDOW: Scheme(lambda own, _: _between(*own.window), _TO_0_1, names=("ct",)),
    CLIP: Scheme(lambda own, _: own.moments),
    Z_SCORE: Scheme(
        lambda _, own: (own.mean, own.sd),
        statistics=("the mean of all voxels of the image", "their standard deviation"),
        names=("zscore",),
    ),
    NONZERO_Z_SCORE: Scheme(
        lambda _, own: (own.nonzero_mean, own.nonzero_sd),
        Scaling(keep_zero=True),
        ("the mean of the voxels of the image that are not 0", "their standard deviation"),
    ),
    PERCENTILES: Scheme(
        lambda _, own: _between(own.low_percentile, own.high_percentile),
        _TO_0_1,
        ("percentile 0.5 of all voxels of the image", "percentile 99.5 minus percentile 0.5"),
    ),
    RESCALE: Scheme(
        lambda _, own: _between(own.minimum, own.maximum),
        _TO_0_1,
        ("the minimum of the image", "the maximum minus the minimum"),
        # nnU-Net's documentation uses rescale_to_0_1; its earlier releases accept rescale_0_1.
        names=("rescale_0_1", RESCALE),
    ),
    RGB: Scheme(lambda *_: _between(*_RGB), _TO_0_1, names=(RGB,), values=_RGB),
    NONE: Scheme(lambda *_: (0.0, 1.0), names=("nonorm",)),
}
KINDS = tuple(SCHEMES)


@dataclass(frozen=True)
class Intensity:
    """The intensity scheme of one channel.

    Attributes:
      kind: one of `KINDS`:
        "window": `window` is mapped to 0..1 and clipped;
        "clip": values are clipped to `window`, then the mean of `moments` becomes 0 and its standard deviation 1;
        "z-score": the mean of the case becomes 0 and its standard deviation 1;
        "z-score of nonzero voxels": the same for nonzero voxels; other voxels stay 0;
        "percentiles": percentiles 0.5 to 99.5 of the case are mapped to 0..1 and clipped;
        "rescale_to_0_1": the minimum and the maximum of the case are mapped to 0..1;
        "rgb_to_0_1": 0..255 is mapped to 0..1;
        "none": the values are unchanged.
      window: (low, high) of a window or a clip; None for other kinds.
      moments: (mean, sd) of a clip; None for other kinds.
    """

    kind: str
    window: Window | None = None
    moments: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(_unknown(self.kind))
        if (self.window is None) == (self.kind in (WINDOW, CLIP)) or (self.moments is None) == (self.kind == CLIP):
            what = "has no bounds" if self.window is None else f"has the window {self.window}"
            raise DataError(
                f"intensity '{self.kind}' {what} and {'no' if self.moments is None else 'a'} mean. Fix: give (low, "
                "high) for the kinds 'window' and 'clip', (mean, sd) for 'clip', and none of them for other kinds."
            )
        if self.window is not None:
            object.__setattr__(self, "window", check_window(self.window))

    def __str__(self) -> str:
        words = [self.kind, *(f"{bound:.15g}" for bound in self.window or ())]
        return " ".join(words + [f"{name} {n:.15g}" for name, n in zip(("mean", "sd"), self.moments or ())])

    @property
    def scheme(self) -> Scheme:
        """The properties of the kind."""
        return SCHEMES[self.kind]

    @property
    def needs_statistics(self) -> bool:
        """Whether the scheme depends on the case's values."""
        return self.scheme.statistics is not None

    def scaling(self, statistics: ChannelStatistics | None = None) -> Scaling:
        """Returns the map from the values of one case to network input.

        Args:
          statistics: the distribution of the channel in the whole case. It may be None if `needs_statistics` is False.

        Returns:
          The map. A constant channel is mapped to 0.
        """
        if self.needs_statistics and statistics is None:
            raise DataError(f"intensity '{self}' needs the statistics of the case. Fix: compute channel_statistics.")
        offset, scale = self.scheme.place(self, statistics)
        scale = scale if scale > SMALLEST_SCALE else 1.0
        scaling = self.scheme.form._replace(offset=offset, scale=scale)
        if self.kind == CLIP and self.window:
            low, high = ((bound - offset) / scale for bound in self.window)
            scaling = scaling._replace(low=low, high=high)
        return scaling

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
        if self.scheme.values is None:
            return
        low, high = self.scheme.values
        if not low <= statistics.minimum <= statistics.maximum <= high:
            raise DataError(
                f"{where}: intensity '{self}' needs values of {low:g} to {high:g}, but the image has "
                f"{statistics.minimum:g} to {statistics.maximum:g}. Fix: use '{RESCALE}' or '{Z_SCORE}'."
            )


def channel_intensity(channel: str) -> Intensity:
    """Returns the intensity scheme of a channel, which follows from its name as in nnU-Net.

    >>> [str(channel_intensity(name)) for name in ("CT", "T1w", "noNorm")]
    ['window -512 512', 'z-score', 'none']
    """
    kind = _kind_of_name(channel) or Z_SCORE
    return Intensity(kind, DEFAULT_WINDOW if kind == WINDOW else None)


def parse_intensity(text: str, where: str = "intensities") -> Intensity:
    """Parses the string of an intensity scheme.

    >>> parse_intensity("window -160 240").window
    (-160.0, 240.0)

    Args:
      text: one of `KINDS`, with two bounds after "window", bounds, mean and standard deviation after "clip", or
        nnU-Net's name for a scheme, such as "CT". Case does not matter.
      where: the file or the setting that contains the string, for the message.

    Returns:
      The scheme.

    Raises:
      DataError: the string is not the name of a scheme, or a window is empty.
    """
    if isinstance(text, str):
        short = " ".join(text.casefold().split())
        if _kind_of_name(short):
            return channel_intensity(short)
        if short in KINDS and short not in (WINDOW, CLIP):
            return Intensity(short)
        for kind, pattern in ((WINDOW, _WINDOW), (CLIP, _CLIP)):
            if match := pattern.fullmatch(short):
                low, high, *moments = map(float, match.groups())
                try:
                    return Intensity(kind, (low, high), tuple(moments) or None)
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


def apply_intensities(
    values: np.ndarray, intensities: Sequence[Intensity], statistics: Sequence[ChannelStatistics] = ()
) -> np.ndarray:
    """Returns the network input of an image as a new float32 array; see `overwrite_with_input`.

    Args:
      values: `[x, y, z, channels]` of any dtype.
      intensities, statistics: see `overwrite_with_input`.
    """
    return overwrite_with_input(np.array(values, np.float32), intensities, statistics)


def overwrite_with_input(
    values: np.ndarray, intensities: Sequence[Intensity], statistics: Sequence[ChannelStatistics] = ()
) -> np.ndarray:
    """Turns an image into network input, in place.

    Args:
      values: float32 `[x, y, z, channels]`, resampled values; overwritten.
      intensities: the intensity scheme of each channel.
      statistics: the distribution of each channel in the whole case; may be empty if no scheme needs it.

    Returns:
      `values`.

    Raises:
      DataError: a scheme needs statistics, but there are none; or the numbers of schemes and channels differ.
    """
    scalings = channel_scalings(intensities, statistics)
    if len(scalings) != values.shape[-1]:
        raise DataError(
            f"the image has {values.shape[-1]} channel(s), but there are {len(scalings)} intensities. "
            "Fix: give one intensity per channel."
        )
    for number, scaling in enumerate(scalings):
        scaling.overwrite(values[..., number])
    return values


def channel_scalings(intensities: Sequence[Intensity], statistics: Sequence[ChannelStatistics]) -> list[Scaling]:
    """Returns each channel's map from values to network input; see `overwrite_with_input`."""
    if not statistics:
        return [intensity.scaling() for intensity in intensities]
    return [intensity.scaling(channel) for intensity, channel in zip(intensities, statistics, strict=True)]


def _kind_of_name(channel: str) -> str | None:
    """Returns the kind that a channel name selects, or None."""
    return next((kind for kind, scheme in SCHEMES.items() if channel.casefold() in scheme.names), None)


def _unknown(text: object) -> str:
    what = "has no bounds" if text in (WINDOW, CLIP) else "is unknown"
    hint = did_you_mean(text, KINDS) if isinstance(text, str) and text not in (WINDOW, CLIP) else ""
    return (
        f"intensity {text!r} {what}.{hint} Fix: use 'window LOW HIGH', 'clip LOW HIGH mean MEAN sd SD', "
        f"{', '.join(repr(kind) for kind in KINDS[2:-1])} or '{NONE}'."
    )
