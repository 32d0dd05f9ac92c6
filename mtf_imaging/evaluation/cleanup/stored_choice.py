"""Chosen rules and their Dice, for `metrics.json`, the report and `cleanup.json`.

`cleanup.json` is in the folder of a run or of a cross-validation.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import Description
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.rule_text import Rule, rule_of_fields
from mtf_imaging.evaluation.volume_scores.reliability import Reliability
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import read_object
from mtf_imaging.plain_text import decimals, text_table

Dice = dict[str, float]  # {mask: mean Dice}


@dataclasses.dataclass(frozen=True)
class Choice:
    """The chosen rules, and the mean Dice of the held-out cases.

    Attributes:
      rules: the rules, in the order in which they are applied; empty if none increases the Dice.
      num_cases: the number of held-out cases.
      without: the Dice without rules.
      chosen: the Dice with the rules. It is optimistic, because the rules were chosen on the same cases.
      cross_validated: the Dice when each part of the cases uses rules that were chosen on the other parts; None if
          there is only one case.
    """

    rules: tuple[Rule, ...]
    num_cases: int
    without: Dice
    chosen: Dice
    cross_validated: Dice | None

    @property
    def fields(self) -> dict[str, Any]:
        """The choice as an entry of `metrics.json`."""
        dice = {
            name: {
                "without": self.without[name],
                "with": self.chosen[name],
                "cross_validated": None if self.cross_validated is None else self.cross_validated[name],
            }
            for name in self.without
        }
        return {"rules": [str(rule) for rule in self.rules], "num_cases": self.num_cases, "dice": dice}

    def text(self) -> str:
        """Returns the rules and the Dice as a plain-text table."""
        rows = [("Dice", "without", "with", "cross-validated")]
        for name, dice in self.fields["dice"].items():
            rows.append((name, *map(decimals, dice.values())))
        rules = ", ".join(map(str, self.rules)) or "none"
        return "\n".join([f"Rules chosen on {self.num_cases} held-out cases: {rules}", *text_table(rows, (8, 8))])


@dataclasses.dataclass(frozen=True)
class RulesReport:
    """The information about probabilities and rules in `metrics.json` and the report.

    Attributes:
      applied: the rules that were applied to the predictions, as text.
      choice: the rules that were chosen on the cases, where the predictions are without rules; None if no rules were
          chosen.
      reliability: the reliability of the probabilities; None if only labels were scored.
    """

    applied: tuple[str, ...] = ()
    choice: Choice | None = None
    reliability: Reliability | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The entries of `metrics.json`; empty without rules and probabilities."""
        applied = {"applied": [*self.applied]} if self.applied else {}
        fields = applied | ({} if self.choice is None else {"chosen": self.choice.fields})
        calibration = {} if self.reliability is None else {"calibration": self.reliability.fields}
        return ({"cleanup": fields} if fields else {}) | calibration


NO_RULES = RulesReport()


NAME = "cleanup.json"


def save_rules(folder: str | Path, choice: Choice) -> None:
    """Writes the rules and their Dice to a folder; an existing file is replaced."""
    fields = choice.fields | {"rules": [rule.fields for rule in choice.rules]}
    write_bytes(Path(folder) / NAME, (json.dumps(fields, indent=1) + "\n").encode())


def read_rules(folder: str | Path, description: Description) -> tuple[Rule, ...]:
    """Returns the rules in a folder; an empty tuple if there is no file.

    Args:
      folder: the folder of a run or of a cross-validation.
      description: the labels of the network.

    Raises:
      DataError: the file is damaged, or its rules are for other labels.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        return ()
    fix = "choose the rules again, or ignore them with cleanup='none'"
    try:
        return tuple(rule_of_fields(fields, description) for fields in read_object(path, fix)["rules"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: its rules are damaged, or do not fit the labels {', '.join(description.masks)} ({error!r}). "
            f"Fix: {fix}.",
            ["cleanup"],
        ) from error
