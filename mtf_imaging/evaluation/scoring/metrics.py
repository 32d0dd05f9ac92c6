"""Output of scores: `metrics.json`, `metrics.csv` with one row per case, and plain-text tables."""

import csv
import io
import json
from pathlib import Path

from mtf_imaging.evaluation.scoring.case import DETECTED, CaseScore
from mtf_imaging.evaluation.scoring.lesions import Lesion
from mtf_imaging.evaluation.scoring.official import OFFICIAL_MEASURES, official_scores
from mtf_imaging.evaluation.scoring.overlap import MASKS
from mtf_imaging.evaluation.scoring.summary import DISTANCES, OVERLAPS, detection, measures, summarize
from mtf_imaging.files.atomic import write_bytes


def metrics_dict(cases: list[CaseScore]) -> dict:
    """Returns the contents of `metrics.json`.

    Returns:
      `{"official": {...}, "cases": {key: {"official": {...}, "liver": {"dice": ..., "voe": ..., ...}, "lesion": {...},
      "lesions": [...], "tumor_burden": {...}}}, "liver": {"dice_per_case": ..., "dice_global": ..., ...}, "lesion":
      {...}, ...}`. `official_scores` defines "official", over all cases and of each case; `summarize` defines the rest.
    """
    return {
        "official": official_scores(case.official for case in cases),
        "cases": {case.key: _case_dict(case) for case in cases},
        **summarize(cases),
    }


def write_metrics(output_dir: str | Path, cases: list[CaseScore]) -> None:
    """Writes `metrics.json` and `metrics.csv` to a folder; each file is replaced atomically."""
    metrics = metrics_dict(cases)
    text = json.dumps(metrics, indent=1, allow_nan=False) + "\n"
    write_bytes(Path(output_dir) / "metrics.json", text.encode())
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    values = [case_values(case, metrics["cases"][case.key]) for case in cases]
    writer.writerow(values[0])
    writer.writerows(row.values() for row in values)  # None becomes an empty field
    write_bytes(Path(output_dir) / "metrics.csv", rows.getvalue().encode())


def case_values(case: CaseScore, fields: dict) -> dict[str, str | int | float | None]:
    """Returns a row of `metrics.csv` by column; None is an undefined value.

    Args:
      case: the scores of the case.
      fields: the entry of the case in `metrics_dict`.
    """
    counts = detection(case.lesions, DETECTED)
    burden = fields["tumor_burden"]
    return {
        "case": case.key,
        **{f"{mask}_{measure}": fields[mask][measure] for mask in MASKS for measure in (*OVERLAPS, *DISTANCES)},
        **{f"lesions_{count}": counts[count] for count in ("true_positives", "false_positives", "false_negatives")},
        "burden": burden["prediction"],
        "reference_burden": burden["reference"],
        **{f"official_{name}": value for name, value in fields["official"].items()},
    }


def dice_table(cases: list[CaseScore]) -> str:
    """Returns a plain-text table of the Dice of each case, the mean Dice and the global Dice.

    >>> import numpy as np
    >>> from mtf_imaging.evaluation.scoring.case import score_case
    >>> labels = [np.array(row).reshape(3, 1, 1) for row in ([0, 1, 2], [1, 1, 2])]
    >>> print(dice_table([score_case("0", *labels, (1, 1, 1))]))
    Dice       liver  lesion
    0          0.800   1.000
    per case   0.800   1.000
    global     0.800   1.000
    """
    rows = [(case.key, [case.overlaps[mask].dice for mask in MASKS]) for case in cases]
    summary = summarize(cases)
    rows.append(("per case", [summary[mask]["dice_per_case"] for mask in MASKS]))
    rows.append(("global", [summary[mask]["dice_global"] for mask in MASKS]))
    width = max(8, *(len(label) for label, _ in rows))
    lines = [f"{'Dice':{width}}" + "".join(f"{name:>8}" for name in MASKS)]
    lines += [f"{label:{width}}" + "".join(f"{dice:8.3f}" for dice in values) for label, values in rows]
    return "\n".join(lines)


def scores_text(cases: list[CaseScore]) -> str:
    """Returns the tables of the Dice, the official scores and our own measures."""
    return "\n\n".join([dice_table(cases), official_table(cases), summary_table(cases)])


def official_table(cases: list[CaseScore]) -> str:
    """Returns a plain-text table of the scores of the challenge's original program."""
    scores = official_scores(case.official for case in cases)
    lines = [f"{'official':16}{'precision':>10}{'recall':>10}"]
    for name, suffix in (("IoU > 0.5", ""), ("IoU > 0", "_greater_zero")):
        values = (scores[f"lesion_{measure}{suffix}"] for measure in ("precision", "recall"))
        lines.append(f"{name:16}" + "".join(f"{_shown(value):>10}" for value in values))
    lines += ["", f"{'official':16}{'liver':>10}{'lesion':>10}"]
    for measure in OFFICIAL_MEASURES:
        unit = " (mm)" if measure in ("assd", "rmsd", "msd") else ""
        values = (scores[f"{mask}_{measure}"] for mask in MASKS)
        lines.append(f"{measure + unit:16}" + "".join(f"{_shown(value):>10}" for value in values))
    errors = _shown(scores["RMSE_Tumorburden"]), _shown(scores["MAXERROR_Tumorburden"])
    lines += ["", f"official tumor burden: RMSE {errors[0]}, largest error {errors[1]}"]
    return "\n".join(lines)


def summary_table(cases: list[CaseScore]) -> str:
    """Returns a plain-text table of our measures for livers, all lesions as one mask, and detected lesions."""
    summary = summarize(cases)
    columns = {"liver": summary["liver"], "lesion": summary["lesion"], "detected": summary["detected_lesions"]}
    lines = [f"{'our measures':16}" + "".join(f"{name:>10}" for name in columns)]
    for measure in ("dice_per_case", "dice_global", "dice", "voe", "rvd", "assd", "rmsd", "mssd", "hd95"):
        shown = [_shown(column[measure]) if measure in column else "" for column in columns.values()]
        unit = " (mm)" if measure in DISTANCES else ""
        lines.append(f"{measure + unit:16}" + "".join(f"{text:>10}" for text in shown))
    lines.append("")
    lines.append(f"{'lesions':16}" + "".join(f"{name:>10}" for name in ("precision", "recall", "F1")))
    for name, scores in summary["detection"].items():
        values = [_shown(scores[key]) for key in ("precision", "recall", "f1")]
        lines.append(f"{name.replace('iou_above_', 'IoU > '):16}" + "".join(f"{text:>10}" for text in values))
    burden = summary["tumor_burden"]
    lines.append("")
    lines.append(f"tumor burden: RMSE {_shown(burden['rmse'])}, largest error {_shown(burden['max_error'])}")
    return "\n".join(lines)


def _shown(value):
    return "-" if value is None else f"{value:.3f}"


def _case_dict(case: CaseScore) -> dict:
    prediction, reference = case.burden or (None, None)
    return {
        "official": official_scores([case.official]),
        **{mask: measures(case.overlaps[mask], case.distances[mask]) for mask in MASKS},
        "lesions": [_lesion_dict(lesion) for lesion in case.lesions],
        "tumor_burden": {"prediction": prediction, "reference": reference},
    }


def _lesion_dict(lesion: Lesion) -> dict:
    return {
        "diameter_mm": lesion.diameter,
        "predicted_voxels": lesion.overlap.prediction,
        "reference_voxels": lesion.overlap.reference,
        "iou": lesion.overlap.jaccard,
        **measures(lesion.overlap, lesion.distances),
    }
