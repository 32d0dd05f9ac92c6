"""The distribution of the values of an image, without holding it in memory."""

from mtf_imaging.data.images.sources import ImageSource, VoxelSource, read_slabs
from mtf_imaging.data.intensities import ChannelStatistics
from mtf_imaging.data.statistics import Distribution


def image_statistics(image: ImageSource) -> tuple[ChannelStatistics, ...]:
    """Returns the statistics of each channel, equal to `channel_statistics` of its voxels; checks the files.

    Args:
      image: an image, which is read once, or twice if its values are neither HU nor small integers.

    Raises:
      DataError: a file is damaged, or its values cannot be used.
    """
    return tuple(map(_source_statistics, image.channels))


def _source_statistics(source: VoxelSource) -> ChannelStatistics:
    distribution = Distribution()
    for _, values in read_slabs(source):
        distribution.add(values)
    source.check()
    if distribution.needs_second_pass:
        for _, values in read_slabs(source):
            distribution.add_again(values)
    return distribution.statistics()
