"""Resamples the channels of an image."""

from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.modality import is_ct, value_beyond
from mtf_imaging.data.sampling.resample import resample_linear
from mtf_imaging.data.sampling.sampling import Spans


def resample_channels(channels: Sequence[np.ndarray], names: Sequence[str], spans: Spans) -> np.ndarray:
    """Resamples the channels of an image linearly.

    Voxels beyond the image are air in a CT and 0 in other channels. Hounsfield units are rounded to integers.

    Args:
      channels: one array `[x, y, z]` per channel, any numeric type.
      names: the names of the channels.
      spans: the voxels of the result along x, y, z, in coordinates of the image.

    Returns:
      float32 `[x, y, z, channels]`, with the sizes of the spans.
    """
    result = None
    for number, (values, name) in enumerate(zip(channels, names, strict=True)):
        resampled = resample_linear(values, spans, value_beyond(name))
        if is_ct(name):
            np.rint(resampled, out=resampled)
        if len(channels) == 1:
            return resampled[..., np.newaxis]
        if result is None:
            result = np.empty((*resampled.shape, len(channels)), np.float32)
        result[..., number] = resampled
    return result
