"""The measures of two masks: values by name, the measures that each set of rules reports, and titles."""

from mtf_imaging.data.description.description import ANY_RULES, LITS_RULES
from mtf_imaging.evaluation.volume_scores.overlap import Overlap
from mtf_imaging.evaluation.volume_scores.surface import SurfaceDistances

DISTANCES = ("assd", "rmsd", "mssd", "hd95")  # in mm
# The measures in each set of rules, in the order of `metrics.json`. Dice comes first.
MEASURES = {
    LITS_RULES: ("dice", "voe", "rvd", *DISTANCES),
    ANY_RULES: ("dice", "iou", "rvd", "volume_error_ml", "surface_dice", "hd95", "assd"),
}
# {measure: its title and explanation in reports}.
TITLES = {
    "dice_per_case": ("Dice per case", "mean Dice over cases"),
    "dice_global": ("Dice global", "Dice of all cases combined"),
    "dice": ("Dice", "2 x shared voxels / (voxels of the reference + voxels of the prediction)"),
    "iou": ("IoU", "intersection over union, shared voxels / union"),
    "voe": ("VOE", "volumetric overlap error, 1 - shared voxels / union"),
    "rvd": ("RVD", "relative volume difference, (prediction - reference) / reference"),
    "volume_error_ml": ("volume error", "in mL: volume of the prediction - volume of the reference"),
    "surface_dice": ("surface Dice", "share of the points of both surfaces that lie within the tolerance"),
    "assd": ("ASSD", "in mm: average symmetric surface distance"),
    "rmsd": ("RMSD", "in mm: root mean square symmetric surface distance"),
    "mssd": ("MSSD", "in mm: maximum symmetric surface distance, the symmetric Hausdorff distance"),
    "hd95": ("HD95", "in mm: the larger of the 95th percentiles of both directed surface distances"),
}
# {last word of a measure's name: its format in tables}, if not .3f.
FORMATS = {"rvd": "+.3f", "mm": ".1f", "ml": "+.2f"} | dict.fromkeys((*DISTANCES, "msd"), ".2f")


def measures(
    overlap: Overlap, distances: SurfaceDistances | None, rules: str = LITS_RULES, voxel_ml: float | None = None
) -> dict[str, float | None]:
    """Returns the measures of two masks by name; undefined values are None.

    Args:
      overlap: the voxel counts of the masks.
      distances: the distances between their surfaces; None if a mask is empty.
      rules: the rules that name the measures, a key of `MEASURES`.
      voxel_ml: the volume of a voxel in mL; needed for the volume error.
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


def unit_text(measure: str) -> str:
    """Returns the unit of a measure for the head of a column, such as " (mm)"; "" without a unit."""
    return " (mm)" if measure in (*DISTANCES, "msd") else " (mL)" if measure.endswith("_ml") else ""


def _missed(overlap: Overlap) -> float | None:
    """Returns the surface Dice of a mask and an empty mask; undefined if both are empty and have no surface."""
    return 0.0 if overlap.prediction or overlap.reference else None
