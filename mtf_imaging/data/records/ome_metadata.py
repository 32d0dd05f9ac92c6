"""The metadata of records: those of OME-Zarr 0.5, and the facts about a case."""

import dataclasses
import json
import math
from typing import Any

import numpy as np

from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.records.chunks import OURS, digest
from mtf_imaging.data.records.facts import Facts
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Sampling

IMAGE, LABELS, LABEL_NAME = "0", "labels", "segmentation"
LABEL_GROUP = f"{LABELS}/{LABEL_NAME}"
LABEL_IMAGE = f"{LABEL_GROUP}/{IMAGE}"
SPACE = ("z", "y", "x")  # the order of the axes in Zarr, which OME-Zarr recommends
CHANNEL = "c"
_VERSION = "0.5"


def grid_affine(facts: Facts, grid: Grid) -> np.ndarray:
    """Returns the affine from voxel indices `[x, y, z]` in a record's grid to mm in RAS+, `[4, 4]` float64."""
    spans = Sampling(grid, facts.sampled_at).spans(facts.shape, facts.spacing)
    to_volume = np.diag([*(span.step for span in spans), 1.0])
    to_volume[:3, 3] = [span.start + 0.5 * span.step - 0.5 for span in spans]  # between the centers of voxels
    return np.asarray(facts.affine, np.float64) @ to_volume


def image_attributes(name: str, affine: np.ndarray, has_channels: bool) -> dict[str, Any]:
    """Returns the attributes of a group with one image.

    Args:
      name: name of the image.
      affine: `[4, 4]`, voxel index `[x, y, z]` -> mm in RAS+. OME-Zarr 0.5 has only scale and translation, so its
        metadata lack the rotation of an oblique image; our attributes contain the whole affine.
      has_channels: whether the first axis of the array is the channel axis.
    """
    scale = np.linalg.norm(affine[:3, :3], axis=0)[::-1].tolist()
    translation = affine[:3, 3][::-1].tolist()
    channel = [{"name": CHANNEL, "type": "channel"}] if has_channels else []
    multiscale = {
        "name": name,
        "axes": channel + [{"name": axis, "type": "space", "unit": "millimeter"} for axis in SPACE],
        "datasets": [
            {
                "path": IMAGE,
                "coordinateTransformations": [
                    {"type": "scale", "scale": [1.0] * len(channel) + scale},
                    {"type": "translation", "translation": [0.0] * len(channel) + translation},
                ],
            }
        ],
    }
    return {"ome": {"version": _VERSION, "multiscales": [multiscale]}, OURS: {"affine": affine.tolist()}}


def labels_attributes() -> dict[str, Any]:
    """Returns the attributes of the group that lists the label images."""
    return {"ome": {"version": _VERSION, "labels": [LABEL_NAME]}}


def label_image_attributes(affine: np.ndarray) -> dict[str, Any]:
    """Returns the group attributes of the label image; see `image_attributes`."""
    attributes = image_attributes(LABEL_NAME, affine, has_channels=False)
    attributes["ome"]["image-label"] = {"source": {"image": "../../"}}
    return attributes


def facts_to_fields(facts: Facts) -> dict[str, Any]:
    """Converts facts to JSON fields, which `facts_from_fields` reads; numbers keep all of their bits."""
    fields = {
        **vars(facts),
        "affine": np.asarray(facts.affine, np.float64).tolist(),
        "shape": [int(size) for size in facts.shape],
        "spacing": [float(mm) for mm in facts.spacing],
        "sampled_at": None if facts.sampled_at is None else [float(mm) for mm in facts.sampled_at],
        "statistics": [dataclasses.asdict(channel) for channel in facts.statistics],
    }
    return {name: value for name, value in fields.items() if value is not False}  # whole images lack is_cropped


def facts_from_fields(fields: dict[str, Any]) -> Facts:
    """Returns the facts in JSON fields.

    Raises:
      KeyError, TypeError, ValueError: the fields were not created by `facts_to_fields`.
    """
    sampled_at = fields["sampled_at"]
    texts = [fields[name] for name in ("key", "axis_codes", "source")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{texts} are not texts")
    return Facts(
        **fields
        | {
            "affine": np.array(fields["affine"], np.float64).reshape(4, 4),
            "shape": _triple(fields["shape"], int),
            "spacing": _triple(fields["spacing"], int | float),
            "sampled_at": None if sampled_at is None else _triple(sampled_at, int | float),
            "statistics": tuple(ChannelStatistics(**channel) for channel in fields["statistics"]),
        }
    )


def _triple(values: object, kind: object) -> tuple:
    x, y, z = values
    if not all(isinstance(value, kind) and 0 < value < math.inf for value in (x, y, z)):
        raise ValueError(f"{values} are not three positive numbers")
    return x, y, z


def metadata_digest(metadata: dict[str, Any]) -> str:
    """Returns the digest of a record's metadata, excluding the digest in its own attributes."""
    attributes = metadata["attributes"]
    ours = {name: value for name, value in attributes[OURS].items() if name != "digest"}
    text = json.dumps({**metadata, "attributes": {**attributes, OURS: ours}}, sort_keys=True)
    return digest(text.encode())
