"""Writes scores: `metrics.json`, `metrics.csv` with one row per case, and plain-text tables."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.volume_scores.case import DETECTED, CaseScore
from mtf_imaging.evaluation.volume_scores.files import write_metrics_files
from mtf_imaging.evaluation.volume_scores.lesions import Lesion
from mtf_imaging.evaluation.volume_scores.measures import MEASURES, measures, unit_text
from mtf_imaging.evaluation.volume_scores.official import OFFICIAL_MEASURES, official_scores
from mtf_imaging.evaluation.volume_scores.summary import detection, summarize
from mtf_imaging.files.provenance.runs import FIELD
from mtf_imaging.plain_text import decimals, text_table

_WIDTHS = (16, 8)  # the least widths of the columns of tables
COUNTS = ("true_positives", "false_positives", "false_negatives")
# Keys in metrics.json in addition to the mask names, for any labels.
RESERVED = ("cases", "mean", "surface_tolerance_mm", "cleanup", "calibration", FIELD)


def metrics_dict(cases: list[CaseScore], description: Description = LITS) -> dict:
    """Returns the contents of `metrics.json`.

    Args:
      cases: the scores of one or more cases.
      description: the meaning of the labels, and the scoring rules.

    Returns:
      For LiTS `{"official": {...}, "cases": {key: {"official": {...}, "liver": {"dice": ..., "voe": ..., ...},
      "lesion": {...}, "lesions": [...], "tumor_burden": {...}}}, "liver": {"dice_per_case": ..., "dice_global": ...,
      ...}, "lesion": {...}, ...}`. `official_scores` defines "official", over all cases and of each case; `summarize`
      defines the rest. For any labels `{"surface_tolerance_mm": ..., "cases": {key: {"mean": {"dice": ...},
      mask: {"dice": ..., "iou": ..., ...}, ...}}, "mean": {...}, mask: {...}, ...}`; in a case, a lesion mask also
      has the list "lesions".
    """
    if description.rules == LITS_RULES:
        first = {"official": official_scores(case.official for case in cases)}
    else:
        first = {"surface_tolerance_mm": cases[0].tolerance}
    return {
        **first,
        "cases": {case.key: _case_dict(case, description) for case in cases},
        **summarize(cases, description),
    }


def write_metrics(
    output_dir: str | Path,
    cases: list[CaseScore],
    description: Description = LITS,
    provenance: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Writes `metrics.json` and `metrics.csv` to a folder; each file is replaced atomically.

    Args:
      output_dir: the folder.
      cases: the scores of one or more cases.
      description: the meaning of the labels, and the rules of the scores.
      provenance: the provenance of the scores, see `Provenance.as_json`; None for none.
      more: further entries of `metrics.json`.
    """
    metrics = metrics_dict(cases, description) | more
    values = [case_values(case, metrics["cases"][case.key], description) for case in cases]
    write_metrics_files(output_dir, metrics, values[0], (row.values() for row in values), provenance)


def case_values(case: CaseScore, fields: dict, description: Description = LITS) -> dict[str, str | int | float | None]:
    """Returns a row of `metrics.csv` by column; undefined values are None.

    Args:
      case: the scores of the case.
      fields: the entry for the case in `metrics_dict`.
      description: the meaning of the labels, and the scoring rules.
    """
    row = {"case": case.key} if description.rules == LITS_RULES else {"case": case.key, "mean_dice": case.mean_dice}
    for mask, column in column_names(description).items():
        row |= {f"{column}_{measure}": fields[mask][measure] for measure in MEASURES[description.rules]}
    for mask, column in lesion_columns(description).items():
        counts = detection(case.lesions_by_mask[mask], DETECTED)
        row |= {f"{column}_{count}": counts[count] for count in COUNTS}
    if description.rules == LITS_RULES:
        row |= {"burden": fields["tumor_burden"]["prediction"], "reference_burden": fields["tumor_burden"]["reference"]}
        row |= {f"official_{name}": value for name, value in fields["official"].items()}
    return row


def lesion_columns(description: Description) -> dict[str, str]:
    """Returns the name of each mask of lesions in the columns of `metrics.csv` about its lesions."""
    if description.rules == LITS_RULES:
        return {"lesion": "lesions"}
    columns = column_names(description)
    return {mask: columns[mask] for mask in description.lesions}


def column_names(description: Description) -> dict[str, str]:
    """Returns each mask's name in the columns of `metrics.csv`: letters, digits and underscores.

    >>> from mtf_imaging.data.description.description import Description
    >>> column_names(Description(("T1",), {}, {"whole tumor": (1, 2), "whole-tumor": (2,), "lesion": (2,)}))
    {'whole tumor': 'whole_tumor', 'whole-tumor': 'whole_tumor_2', 'lesion': 'lesion'}
    """
    columns, taken = {}, {"mean_dice"}
    for mask in description.masks:
        plain = re.sub(r"\W", "_", mask, flags=re.ASCII)
        for number in itertools.count(1):
            name = f"{plain}_{number}" if number > 1 else plain
            own = {f"{name}_{measure}" for measure in (*MEASURES[description.rules], *COUNTS)}
            if not own & taken:
                break
        columns[mask] = name
        taken |= own
    return columns


def dice_table(cases: list[CaseScore], description: Description = LITS) -> str:
    """Returns a plain-text table with the Dice of each case, the mean Dice and the global Dice.

    >>> import numpy as np
    >>> from mtf_imaging.evaluation.volume_scores.case import score_case
    >>> labels = [np.array(row).reshape(3, 1, 1) for row in ([0, 1, 2], [1, 1, 2])]
    >>> print(dice_table([score_case("0", *labels, (1, 1, 1))]))
    Dice       liver  lesion
    0          0.800   1.000
    per case   0.800   1.000
    global     0.800   1.000
    """
    summary = summarize(cases, description)
    values = {case.key: [overlap.dice for overlap in case.overlaps.values()] for case in cases}
    for label, measure in (("per case", "dice_per_case"), ("global", "dice_global")):
        values[label] = [summary[mask][measure] for mask in description.masks]
    rows = [("Dice", *description.masks), *((label, *map(decimals, dice)) for label, dice in values.items())]
    return "\n".join(text_table(rows, (8, 6)))


def scores_text(cases: list[CaseScore], description: Description = LITS) -> str:
    """Returns the tables of Dice and other measures; for LiTS, also the official scores."""
    if description.rules == LITS_RULES:
        return "\n\n".join([dice_table(cases), official_table(cases), summary_table(cases)])
    return "\n\n".join([dice_table(cases, description), masks_table(cases, description)])


def masks_table(cases: list[CaseScore], description: Description) -> str:
    """Returns a plain-text table with the means for each mask, and one with lesion detection."""
    summary = summarize(cases, description)
    names = ("dice_per_case", "dice_global", *MEASURES[description.rules][1:])
    rows = [("mask", *(name.removesuffix("_ml") + unit_text(name) for name in names))]
    rows += [(mask, *(decimals(summary[mask][name]) for name in names)) for mask in description.masks]
    lines = [*text_table(rows), f"surface_dice: at {cases[0].tolerance:g} mm"]
    for mask in description.lesions:
        lines += ["", *_detection_lines(f"{mask}: lesions", summary[mask]["detection"])]
    return "\n".join(lines)


def official_table(cases: list[CaseScore]) -> str:
    """Returns a plain-text table of the original challenge program's scores."""
    scores = official_scores(case.official for case in cases)
    detection = [("official", "precision", "recall")]
    for title, suffix in (("IoU > 0.5", ""), ("IoU > 0", "_greater_zero")):
        detection.append((title, *(decimals(scores[f"lesion_{name}{suffix}"]) for name in ("precision", "recall"))))
    masks = [("official", *LITS.masks)]
    for measure in OFFICIAL_MEASURES:
        values = (decimals(scores[f"{mask}_{measure}"]) for mask in LITS.masks)
        masks.append((measure + unit_text(measure), *values))
    burden = (decimals(scores[f"{name}_Tumorburden"]) for name in ("RMSE", "MAXERROR"))
    lines = [*text_table(detection, _WIDTHS), "", *text_table(masks, _WIDTHS), ""]
    return "\n".join([*lines, "official tumor burden: RMSE {}, largest error {}".format(*burden)])


def summary_table(cases: list[CaseScore]) -> str:
    """Returns a plain-text table with our measures for livers, all lesions as one mask, and detected lesions."""
    summary = summarize(cases)
    columns = {"liver": summary["liver"], "lesion": summary["lesion"], "detected": summary["detected_lesions"]}
    rows = [("our measures", *columns)]
    for measure in ("dice_per_case", "dice_global", *MEASURES[LITS_RULES]):
        cells = (decimals(column[measure]) if measure in column else "" for column in columns.values())
        rows.append((measure + unit_text(measure), *cells))
    burden = summary["tumor_burden"]
    errors = f"RMSE {decimals(burden['rmse'])}, largest error {decimals(burden['max_error'])}"
    detection = _detection_lines("lesions", summary["detection"])
    return "\n".join([*text_table(rows, _WIDTHS), "", *detection, "", f"tumor burden: {errors}"])


def _detection_lines(title: str, scores_by_iou: dict) -> list[str]:
    rows = [(title, "precision", "recall", "F1")]
    for name, scores in scores_by_iou.items():
        shares = (decimals(scores[key]) for key in ("precision", "recall", "f1"))
        rows.append((name.replace("iou_above_", "IoU > "), *shares))
    return text_table(rows, _WIDTHS)


def _case_dict(case: CaseScore, description: Description) -> dict:
    rules = description.rules
    masks = {
        mask: measures(case.overlaps[mask], case.distances[mask], rules, case.voxel_ml) for mask in description.masks
    }
    lesions = {
        mask: [_lesion_dict(lesion, rules, case.voxel_ml) for lesion in lesions]
        for mask, lesions in case.lesions_by_mask.items()
    }
    if rules == LITS_RULES:
        prediction, reference = case.burden or (None, None)
        return {
            "official": official_scores([case.official]),
            **masks,
            "lesions": lesions["lesion"],
            "tumor_burden": {"prediction": prediction, "reference": reference},
        }
    for mask, one in lesions.items():
        masks[mask] |= {"lesions": one}
    return {"mean": {"dice": case.mean_dice}, **masks}


def _lesion_dict(lesion: Lesion, rules: str, voxel_ml: float) -> dict:
    return {
        "diameter_mm": lesion.diameter,
        "predicted_voxels": lesion.overlap.prediction,
        "reference_voxels": lesion.overlap.reference,
        "iou": lesion.overlap.jaccard,
        **measures(lesion.overlap, lesion.distances, rules, voxel_ml),
    }
