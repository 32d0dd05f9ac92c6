"""The distribution of an image's values, computed without keeping the image in memory."""

from mtf_imaging.data.images.sources import ImageSource, VoxelSource, read_slabs
from mtf_imaging.data.intensities.statistics import ChannelStatistics, Distribution, collect


def image_statistics(image: ImageSource) -> tuple[ChannelStatistics, ...]:
    """Returns the `channel_statistics` of each channel, and checks the files.

    Args:
      image: an image, which is read once, or twice if its values are neither HU nor small integers.

    Raises:
      DataError: a file is damaged, or its values cannot be used.
    """
    statistics = []
    for source in image.channels:
        statistics.append(read_statistics(source))
        source.check()
    return tuple(statistics)


def read_statistics(source: VoxelSource) -> ChannelStatistics:
    """Returns the `channel_statistics` of one channel, without checking its file; see `image_statistics`."""
    distribution = Distribution()
    collect(lambda: ([values] for _, values in read_slabs(source)), distribution)
    return distribution.statistics()
