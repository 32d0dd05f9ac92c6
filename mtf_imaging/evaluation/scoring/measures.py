"""The measures of two masks by name, and which of them each set of rules reports."""

from mtf_imaging.data.description.description import ANY_RULES, LITS_RULES
from mtf_imaging.evaluation.scoring.overlap import Overlap
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances

DISTANCES = ("assd", "rmsd", "mssd", "hd95")  # in mm
# The measures of each set of rules, in the order of `metrics.json`. Dice comes first.
MEASURES = {
    LITS_RULES: ("dice", "voe", "rvd", *DISTANCES),
    ANY_RULES: ("dice", "iou", "rvd", "volume_error_ml", "surface_dice", "hd95", "assd"),
}


def measures(
    overlap: Overlap, distances: SurfaceDistances | None, rules: str = LITS_RULES, voxel_ml: float | None = None
) -> dict[str, float | None]:
    """Returns the measures of two masks by name; undefined values are None.

    Args:
      overlap: the voxel counts of the masks.
      distances: the distances between their surfaces; None if a mask is empty.
      rules: the rules that name the measures, a key of `MEASURES`.
      voxel_ml: the volume of a voxel in ml; needed for the volume error.
    """
    values = {
        "dice": overlap.dice,
        "iou": overlap.jaccard,
        "voe": overlap.voe,
        "rvd": overlap.rvd,
        "volume_error_ml": None if voxel_ml is None else (overlap.prediction - overlap.reference) * voxel_ml,
        "surface_dice": distances.surface_dice if distances else _missed(overlap),
        **{name: getattr(distances, name) if distances else None for name in DISTANCES},
    }
    return {name: values[name] for name in MEASURES[rules]}


def _missed(overlap: Overlap) -> float | None:
    """Returns the surface Dice of a mask and an empty one; undefined for two empty masks, which have no surface."""
    return 0.0 if overlap.prediction or overlap.reference else None
