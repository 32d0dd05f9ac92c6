"""Volumes in memory, which a network segments as `predict` does."""

import types

import numpy as np

from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.reading.channels import read_image
from mtf_imaging.data.reading.images import Volume, read_volume
from mtf_imaging.data.records.manifest import is_plain_lits
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.kinds.volumes.segment.segmenter import Segmenter


def array_source(voxels, geometry, path):
    """Returns an array `[x, y, z]` as a `VoxelSource`."""
    place = {"geometry": geometry, "path": path, "order": ALONG_Z, "is_stream": False, "dtype": voxels.dtype}
    nothing = {"check": lambda: None, "close": lambda: None}
    return types.SimpleNamespace(**place, **nothing, read=lambda region: voxels[region].copy())


def as_source(image):
    """Returns a `Volume` or an `Image` as an `ImageSource`."""
    arrays, names = ([image.hu], LITS.channels) if isinstance(image, Volume) else (image.channels, image.names)
    channels = (array_source(voxels, image.geometry, image.path) for voxels in arrays)
    return ImageSource(tuple(channels), names, image.geometry, image.path)


def read_case(case, description=LITS):
    """Reads the image of a case, as a `Volume` or an `Image`."""
    return read_volume(case.volume) if is_plain_lits(description) else read_image(case.channels, description)


def segment_volume(image, sampling, network, **settings):
    """Returns the labels of an image. The settings are those of `Segmenter`."""
    return Segmenter(sampling, **settings).segment(as_source(image), network).labels.own


def network_input(image, sampling, **settings):
    """Returns what a network gets. The settings are those of `Segmenter`."""
    images, count = [], settings.get("description", LITS).num_outputs
    segment_volume(image, sampling, lambda x: images.append(x) or np.zeros((*x.shape[:3], count)), **settings)
    return images[0]
