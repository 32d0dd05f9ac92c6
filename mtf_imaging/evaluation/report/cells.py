"""Numbers of the report for people, with what is undefined as a dash that says why."""

import re

from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.scoring.summary import DISTANCES

DASH = "\N{EN DASH}"
MEASURES = {
    "dice_per_case": ("Dice per case", "mean of the cases' Dice"),
    "dice_global": ("Dice global", "Dice of all cases taken as one"),
    "dice": ("Dice", "2 x shared voxels / sum of both"),
    "voe": ("VOE", "volumetric overlap error, 1 - shared voxels / union"),
    "rvd": ("RVD", "relative volume difference, (prediction - reference) / reference"),
    "assd": ("ASSD", "in mm: average symmetric surface distance"),
    "rmsd": ("RMSD", "in mm: root mean square symmetric surface distance"),
    "mssd": ("MSSD", "in mm: maximum symmetric surface distance, the symmetric Hausdorff distance"),
    "hd95": ("HD95", "in mm: larger of the two 95th percentiles of surface distances"),
}
_FORMATS = {"rvd": "+.3f", "mm": ".1f"} | dict.fromkeys((*DISTANCES, "msd"), ".2f")


def shown(value: float | int | None, name: str = "") -> str:
    """Formats a number for people; `name` ends with the name of its measure.

    >>> shown(0.98765), shown(1.5, "liver_rvd"), shown(12.3456, "lesion.assd"), shown(3), shown(None) == DASH
    ('0.988', '+1.500', '12.35', '3', True)
    """
    if value is None:
        return DASH
    if isinstance(value, int):
        return str(value)
    measure = re.split(r"[._]", name)[-1]
    return f"{value:{_FORMATS.get(measure, '.3f')}}"


def number_cell(value: float | int | None, name: str, why: str, **attributes: object) -> Markup:
    """A cell that has the number in full, too, for sorting.

    Args:
      value: the number.
      name: of the measure; see `shown`.
      why: why it is undefined, where it is.
      attributes: of the cell.
    """
    if value is None:
        attributes |= {"title": why, "class_": f"undefined {attributes.get('class_') or ''}".strip()}
    return tag("td", shown(value, name), data_value=value, **attributes)
