"""Predicts and evaluates volumes with any network, in the loops of the commands `predict` and `evaluate`."""

import itertools
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.description.description_fields import as_fields
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.records.manifest import is_plain_lits
from mtf_imaging.data.sampling.buckets import format_grids
from mtf_imaging.data.sampling.sampling import Sampling, format_spacing
from mtf_imaging.kinds.facts import VOLUMES, Facts
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.volumes.images import Images
from mtf_imaging.kinds.volumes.segment.labels import Labeling
from mtf_imaging.kinds.volumes.segment.maps import NO_MAPS
from mtf_imaging.kinds.volumes.segment.segmenter import Segmenter
from tests.data.reading import read_image, read_volume
from tests.evaluation.oracle import array_source
from tests.kinds import loops

ANY = Sampling((8, 8, 8))  # for what does not depend on the grid


def volumes(sampling, description=LITS, maps=NO_MAPS, is_scored=False, **settings):
    """Returns the volumes that a network with the given grid and description predicts.

    Args:
      sampling: the grid of the network.
      description: the description of the training data.
      maps: the maps to write.
      is_scored: whether the volumes are scored.
      **settings: fields of `Inference`.
    """
    fields = None if description is LITS else as_fields(description)
    facts = Facts(VOLUMES, format_grids(sampling.grids), format_spacing(sampling.spacing), description=fields)
    settings |= {"probabilities": maps.probabilities, "uncertainty": maps.uncertainty, "ensemble": maps.several}
    return Images(Path("run"), facts, Inference(**settings), is_scored)


def sliced_labels(slices, probabilities, geometry, sampling, path, description=LITS, ends=()):
    """Returns the labels of a volume from the probabilities of this process.

    Args:
      slices, geometry, sampling, path, description: the same as in `Labeling`.
      probabilities: the probabilities.
      ends: the rows after which a part ends, except the last one.
    """
    labeling = Labeling(slices, geometry, sampling, path, description)
    for start, stop in itertools.pairwise([0, *ends, len(probabilities)]):
        labeling.add(slice(start, stop), probabilities[start:stop])
    return labeling.finish()


def plan_predictions(input_path, output_path, overwrite=False, **settings):
    """Returns the volumes to segment and the files to write. The settings are those of `volumes`."""
    return volumes(ANY, **settings).plan_predictions(input_path, output_path, overwrite)


def prediction_files(pairs, input_path, output_path, maps=NO_MAPS):
    """Returns the files of a prediction."""
    return volumes(ANY, maps=maps).prediction_files(pairs, Path(input_path), Path(output_path))


def predict_cases(
    input_path, output_path, sampling, network, progress=True, overwrite=False, planned=None, record=None, **settings
):
    """Segments volumes; see `loops.predict`. The settings are those of `volumes`."""
    images = volumes(sampling, **settings)
    return loops.predict(images, input_path, output_path, network, progress, overwrite, planned, record)


def evaluate(
    input_dir, output_dir, sampling, network, num_pictures=3, progress=True, cases=None, provenance=None, **settings
):
    """Segments and scores volumes; see `loops.evaluate`. The settings are those of `volumes`."""
    own = {"num_pictures": num_pictures, "progress": progress}
    return loops.evaluate(
        volumes(sampling, is_scored=True, **settings), input_dir, output_dir, network, cases, provenance, **own
    )


def as_source(image):
    """Returns an `Image` as an `ImageSource`."""
    channels = (array_source(voxels, image.geometry, image.path) for voxels in image.channels)
    return ImageSource(tuple(channels), image.names, image.geometry, image.path)


def read_case(case, description=LITS):
    """Reads the image of a case, as an `Image`."""
    return read_volume(case.volume) if is_plain_lits(description) else read_image(case.channels, description)


def segment_volume(image, sampling, network, **settings):
    """Returns the labels of an image. The settings are those of `Segmenter`."""
    return Segmenter(sampling, **settings).segment(as_source(image), network).labels.own


def network_input(image, sampling, **settings):
    """Returns what a network gets. The settings are those of `Segmenter`."""
    images, count = [], settings.get("description", LITS).num_outputs
    segment_volume(image, sampling, lambda x: images.append(x) or np.zeros((*x.shape[:3], count)), **settings)
    return images[0]
