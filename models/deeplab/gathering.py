"""Gathers dimensions of a map before dilated convolutions, whose halos may be as large as the map."""

from mtf_imaging.models.backbones.gathering import gather_where


def gather_small_slices(x, name, least, rates, filters, separable):
    """Gathers dimensions of a map before dilated convolutions.

    Args:
      x: Tensor[batch, height, width, channels]
      name: name of the operation.
      least: minimum size of a slice in pixels. Dimensions with smaller slices are gathered. None gathers a dimension if
        this moves fewer values than the halos do (`halos_exceed_map`).
      rates: dilations of the convolutions, which have 3 taps along each dimension.
      filters: number of output channels of each convolution.
      separable: whether the convolutions are depthwise separable.

    Returns:
      The tensor, in which gathered dimensions have the names of `mi.ops.gather_slices`.
    """
    channels = x.shape.dims[-1].size

    def is_small(dim, parts):
        if least is None:
            return halos_exceed_map(dim.size, parts, rates, channels, filters, separable)
        return -(-dim.size // parts) < least

    return gather_where(x, name, is_small)


def halos_exceed_map(size, parts, rates, channels, filters, separable=False):
    """Returns whether the halos of dilated convolutions along a dimension have more values than a gather moves.

    Both numbers are per row of the map, summed over all processors along the dimension and over the forward and the
    backward pass:

    - The forward pass moves the `channels` of the map, once for each rate, or once for the gather.
    - The backward pass moves halos of the gradient of each convolution, which has `filters` channels, or `channels` if
      the convolution is depthwise. After a gather, it moves only the gradient of the result, which has `filters`
      channels.

    Args:
      size: number of pixels of the dimension.
      parts: number of slices.
      rates: dilations of the convolutions, which have 3 taps along the dimension.
      channels: number of channels of the map.
      filters: number of channels of each result.
      separable: whether the convolutions are depthwise separable.
    """
    halos = sum(_received(size, parts, rate) for rate in rates) * (channels + (channels if separable else filters))
    return halos > _received(size, parts, size) * (channels + filters)


def _received(size, parts, reach):
    """Returns the number of pixels outside a slice but within `reach` pixels of it, summed over slices."""
    largest, received = -(-size // parts), 0
    for begin in range(0, size, largest):
        end = min(begin + largest, size)
        received += min(reach, begin) + min(reach, size - end)
    return received
