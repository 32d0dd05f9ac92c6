"""Computes the distribution of a channel's values from parts in any order.

All sums are exact, so the result does not depend on the parts or their order. float32 values with the same exponent are
multiples of one power of 2, so float64 adds up to 2^29 of them without rounding. Percentiles come from a histogram of
the upper bits of all values. It is exact for integers of up to 13 bits and a sign. For other values, a second pass
resolves the lower bits around the percentiles.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

PERCENTAGES = (0.5, 99.5)  # of `ChannelStatistics`
_PART_VALUES = 1 << 16  # fits into a CPU cache
_LOW_BITS = 11  # low bits of a float32, which the histogram does not resolve
_LOW_MASK = (1 << _LOW_BITS) - 1
_NUM_BINS = 1 << (32 - _LOW_BITS)
_ZERO_BIN = _NUM_BINS // 2
_MAGNITUDE = 0x7FFFFFFF  # clears the sign of a float32
_UPPER_HALF = np.uint32(0xFFFFF000)  # clears the lower half of a 24-bit mantissa
_EXPONENTS = 256
_COUNT_MASK = (1 << 20) - 1


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


def channel_statistics(values: np.ndarray) -> ChannelStatistics:
    """Computes the distribution of one channel's values.

    >>> channel_statistics(np.array([0, 0, 2, 4])).nonzero_mean
    3.0

    Args:
      values: finite numbers of any shape, at least one; see `Distribution.add`.
    """
    distribution = Distribution()
    collect(lambda: [[values]], distribution)
    return distribution.statistics()


def collect(read: Callable[[], Iterable[Sequence[np.ndarray]]], *distributions: "Distribution") -> None:
    """Adds all parts to one or more distributions.

    Args:
      read: a function that yields a part for each distribution at a time. It is called once, or twice if the values are
        neither HU nor small integers.
      distributions: the distributions.
    """
    for add in (Distribution.add, Distribution.add_again):
        for parts in read():
            for distribution, part in zip(distributions, parts, strict=True):
                add(distribution, part)
        if not any(distribution.needs_second_pass for distribution in distributions):
            break


class Distribution:
    """Collects the distribution of values that come in parts.

    Call `add` with each part. If `needs_second_pass` is then true, call `add_again` with each part.

    Args:
      percentages: the percentages of `percentiles`; those of `ChannelStatistics` must be among them.

    Attributes:
      needs_second_pass: whether the percentiles depend on bits that the histogram does not resolve.
    """

    def __init__(self, percentages: Sequence[float] = PERCENTAGES) -> None:
        self._percentages = percentages
        # Histograms of keys without their low bits: of parts whose low bits are 0, and of other parts.
        self._exact, self._coarse = np.zeros(_NUM_BINS, np.int64), np.zeros(_NUM_BINS, np.int64)
        self.needs_second_pass = False
        self._fine: dict[int, np.ndarray] = {}  # {bin: histogram of the low bits}
        self._sums = _Sums()  # over the parts in `_coarse`
        self._num_nonzero = 0
        self._minimum, self._maximum = math.inf, -math.inf

    def add(self, values: np.ndarray) -> None:
        """Adds a part.

        Args:
          values: finite numbers of any shape that float32 represents exactly, such as int16. Other numbers are rounded.
        """
        for part in _parts(values):
            keys = _to_keys(part)
            is_exact = not np.bitwise_or.reduce(keys & _LOW_MASK)
            np.add.at(self._exact if is_exact else self._coarse, (keys >> _LOW_BITS) + _ZERO_BIN, 1)
            self._num_nonzero += np.count_nonzero(part)
            self._minimum = min(self._minimum, float(part.min()))
            self._maximum = max(self._maximum, float(part.max()))
            if not is_exact:
                self.needs_second_pass = True
                self._sums.add(part)

    def add_again(self, values: np.ndarray) -> None:
        """Adds a part in the second pass."""
        if not self._fine:
            ends = np.cumsum(self._exact + self._coarse)
            ranks = {rank for percentage in self._percentages for rank in _ranks(int(ends[-1]), percentage)[:2]}
            self._fine = {_bin_of(ends, rank): np.zeros(_LOW_MASK + 1, np.int64) for rank in ranks}
        for part in _parts(values):
            keys = _to_keys(part)
            upper = keys >> _LOW_BITS
            for chosen, fine in self._fine.items():
                fine += np.bincount(keys[upper == chosen - _ZERO_BIN] & _LOW_MASK, minlength=_LOW_MASK + 1)

    def statistics(self) -> ChannelStatistics:
        """Returns the statistics of all parts, at least one value."""
        count = int(self._exact.sum() + self._coarse.sum())
        sums = copy.deepcopy(self._sums)
        bins = np.flatnonzero(self._exact)
        sums.add(_from_keys((bins - _ZERO_BIN) << _LOW_BITS), self._exact[bins])
        total, squares = sums.totals()
        return ChannelStatistics(
            *_mean_and_sd(total, squares, count),
            *_mean_and_sd(total, squares, self._num_nonzero),  # zeros do not change the sums
            *self.percentiles(PERCENTAGES),
            self._minimum,
            self._maximum,
        )

    def percentiles(self, percentages: Sequence[float]) -> tuple[float, ...]:
        """Returns some of the percentiles of all parts, at least one value."""
        ends = np.cumsum(self._exact + self._coarse)
        return tuple(self._percentile(ends, percentage) for percentage in percentages)

    def _percentile(self, ends: np.ndarray, percentage: float) -> float:
        """Returns a percentile, interpolated like `np.percentile`."""
        below, above, fraction = _ranks(int(ends[-1]), percentage)
        low, high = self._value(ends, below), self._value(ends, above)
        difference = np.float64(high - low)
        return float(high - difference * (1 - fraction) if fraction >= 0.5 else low + difference * fraction)

    def _value(self, ends: np.ndarray, rank: int) -> np.float32:
        """Returns the value of a rank, counted from the smallest value."""
        chosen = _bin_of(ends, rank)
        key = (chosen - _ZERO_BIN) << _LOW_BITS
        if self.needs_second_pass:
            before = int(ends[chosen - 1]) if chosen else 0
            key += _bin_of(np.cumsum(self._fine[chosen]), rank - before)
        return _from_keys(np.array([key]))[0]


class _Sums:
    """The exact sums of values and of their squares."""

    def __init__(self) -> None:
        self._sums, self._squares = [0] * _EXPONENTS, [0] * _EXPONENTS  # {exponent: sum}, in units of the last place

    def add(self, values: np.ndarray, counts: np.ndarray | None = None) -> None:
        """Adds float32 values; `counts` states how often each of them occurs."""
        if counts is not None:  # halves of the counts, because products must fit into the 53 bits of float64
            self._add(values, (counts & _COUNT_MASK).astype(np.float64))
            self._add(values, (counts & ~_COUNT_MASK).astype(np.float64))
        else:
            self._add(values, None)

    def totals(self) -> tuple[Fraction, Fraction]:
        """Returns the sum of all values and the sum of their squares."""
        return _in_units(self._sums, 1), _in_units(self._squares, 2)

    def _add(self, values: np.ndarray, weights: np.ndarray | None) -> None:
        bits = values.view(np.uint32)
        exponents = ((bits >> 23) & (_EXPONENTS - 1)).astype(np.intp)
        whole = values.astype(np.float64)
        # The square of 24 bits has 48 bits, which leaves no room for a sum in float64. Products of halves have 24 bits.
        upper = (bits & _UPPER_HALF).view(np.float32).astype(np.float64)
        lower = whole - upper
        terms = (whole, upper * upper, upper * lower, lower * lower)
        sums, upper_squares, products, lower_squares = (
            np.bincount(exponents, term if weights is None else term * weights, _EXPONENTS) for term in terms
        )
        squares = (upper_squares, 2 * products, lower_squares)
        for exponent in np.flatnonzero(np.bincount(exponents)).tolist():
            shift = -_last_place(exponent)
            self._sums[exponent] += int(math.ldexp(sums[exponent], shift))
            self._squares[exponent] += sum(int(math.ldexp(part[exponent], 2 * shift)) for part in squares)


def _parts(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yields all values as float32, in pieces of limited size and in any order."""
    flat = np.ravel(values, order="K")
    for start in range(0, flat.size, _PART_VALUES):
        yield flat[start : start + _PART_VALUES].astype(np.float32)


def _to_keys(values: np.ndarray) -> np.ndarray:
    """Maps float32 values to int32 keys with the same order; both zeros become 0."""
    bits = values.view(np.int32)
    return np.where(bits < 0, -(bits & _MAGNITUDE), bits)


def _from_keys(keys: np.ndarray) -> np.ndarray:
    """Returns the float32 values of keys."""
    return np.where(keys < 0, -keys | (_MAGNITUDE + 1), keys).astype(np.uint32).view(np.float32)


def _last_place(exponent: int) -> int:
    """Returns the power of 2 that divides all float32 values with an exponent field."""
    return max(exponent, 1) - 150


def _in_units(sums: list[int], power: int) -> Fraction:
    """Adds up one sum per exponent; each is in units of its last place, raised to a power."""
    return sum((Fraction(2) ** (power * _last_place(at)) * part for at, part in enumerate(sums) if part), Fraction())


def _mean_and_sd(total: Fraction, squares: Fraction, count: int) -> tuple[float, float]:
    if not count:
        return 0.0, 0.0
    mean = total / count
    return float(mean), math.sqrt(squares / count - mean * mean)


def _ranks(count: int, percentage: float) -> tuple[int, int, float]:
    """Returns the ranks around a percentile, and the position between them."""
    position = (count - 1) * (percentage / 100)
    below = math.floor(position)
    return below, min(below + 1, count - 1), position - below


def _bin_of(ends: np.ndarray, rank: int) -> int:
    """Returns the bin of a rank; `ends` is the cumulative histogram."""
    return int(np.searchsorted(ends, rank, "right"))
