"""Chosen rules and their Dice, for `cleanup.json`, `metrics.json` and the report."""

import dataclasses
from typing import Any

from mtf_imaging.evaluation.mask_rules.rule import Rule

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
        width = max(8, *map(len, self.without))
        lines = [
            f"Rules chosen on {self.num_cases} held-out cases: {', '.join(map(str, self.rules)) or 'none'}",
            f"{'Dice':{width}}{'without':>10}{'with':>10}{'cross-validated':>18}",
        ]
        for name, before in self.without.items():
            honest = "-" if self.cross_validated is None else f"{self.cross_validated[name]:.3f}"
            lines.append(f"{name:{width}}{before:>10.3f}{self.chosen[name]:>10.3f}{honest:>18}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class RulesReport:
    """The information about rules in `metrics.json` and the report.

    Attributes:
      applied: the rules that were applied to the predictions, as text.
      choice: the rules that were chosen on the cases, where the predictions are without rules; None if no rules were
          chosen.
    """

    applied: tuple[str, ...] = ()
    choice: Choice | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The entry of `metrics.json`; empty without rules."""
        applied = {"applied": [*self.applied]} if self.applied else {}
        fields = applied | ({} if self.choice is None else {"chosen": self.choice.fields})
        return {"cleanup": fields} if fields else {}


NO_RULES = RulesReport()
