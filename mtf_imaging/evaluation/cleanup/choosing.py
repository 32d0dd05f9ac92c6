"""The choice of rules on held-out cases.

As in the postprocessing of nnU-Net (Isensee et al. 2021, https://doi.org/10.1038/s41592-020-01008-z), a rule is chosen
only if it increases the mean Dice of the held-out cases and does not decrease the Dice of any mask. nnU-Net has one
rule, the largest component of the foreground or of a class. Here, rules may also remove small components and components
outside another mask, and set the probability above which a mask is predicted.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence

from mtf_imaging.data.description.description import Description
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.rule_kinds import INSIDE, KINDS, LARGEST, MIN_VOLUME, THRESHOLD
from mtf_imaging.evaluation.cleanup.rule_text import Rule, make_rule
from mtf_imaging.evaluation.cleanup.stored_choice import Choice, Dice
from mtf_imaging.evaluation.cleanup.tables import CaseTables, case_tables
from mtf_imaging.evaluation.cleanup.thresholds import CANDIDATES, read_open_voxels
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.pairs.running import Run, attempt
from mtf_imaging.evaluation.pairs.score_pairs import read_labels
from mtf_imaging.evaluation.volume_scores.overlap import NOTHING, label_overlaps, mean

VOLUMES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # mL, the candidates of min_volume
_GAIN = 1e-6  # of the mean Dice; a smaller gain is a tie, for which no rule is chosen
_ROUNDING = 1e-9
_NUM_PARTS = 5  # of a cross-validation without folds


def choose_rules(
    pairs: Sequence[Pair],
    run: Run,
    scoring: Scoring,
    parts: Sequence[Sequence[int]] | None = None,
) -> Choice:
    """Chooses rules for the masks of held-out cases.

    Thresholds come first, if there are probabilities, then the union of all masks, then one mask after the other. At
    each step, the rule with the highest mean Dice is chosen, given the rules chosen before.

    Args:
      pairs: the held-out cases with their predictions, before any rules.
      run: the function that maps a function over the pairs.
      scoring: the meaning of the labels.
      parts: the indices of the cases in each fold; None divides them into 5 parts.

    Raises:
      DataError: a file cannot be used.
    """
    numbers = range(len(pairs))
    if parts is None:
        parts = [numbers[first::_NUM_PARTS] for first in range(min(_NUM_PARTS, len(pairs)))]
    measured = _Measured(pairs, run, scoring)
    rules = measured.choose(numbers)
    without, chosen = (_means([measured(used)[n].dice() for n in numbers]) for used in ((), rules))
    cross_validated = None
    if len(parts) > 1:
        dice = []
        for part in parts:
            others = measured.choose([n for n in numbers if n not in part])
            dice += [measured(others)[n].dice() for n in part]
        cross_validated = _means(dice)
    return Choice(rules, len(pairs), without, chosen, cross_validated)


class _Measured:
    """The tables of all cases, computed once for each list of rules."""

    def __init__(self, pairs: Sequence[Pair], run: Run, scoring: Scoring) -> None:
        self._pairs, self._run, self._scoring = pairs, run, scoring
        self._groups = _candidates(scoring.description, all(pair.open_voxels for pair in pairs))
        self._tables: dict[tuple[Rule, ...], list[CaseTables]] = {}

    def __call__(self, rules: tuple[Rule, ...]) -> list[CaseTables]:
        """Returns the tables of the cases after some rules have been applied."""
        if rules not in self._tables:
            candidates = [*itertools.chain(*self._groups)]
            options = {"rules": rules, "candidates": candidates, "scoring": self._scoring}
            function = functools.partial(attempt, _measure, **options)
            found = {pair.key: one for pair, one in self._run(function, self._pairs)}
            for one in found.values():
                if isinstance(one, DataError):
                    raise one
            self._tables[rules] = [found[pair.key] for pair in self._pairs]
        return self._tables[rules]

    def choose(self, numbers: Sequence[int]) -> tuple[Rule, ...]:
        """Returns the rules that increase the Dice of some cases."""
        rules: tuple[Rule, ...] = ()
        for group in self._groups:
            for _ in KINDS:  # each kind at most once
                cases = [self(rules)[n] for n in numbers]
                kinds = [rule.kind for rule in rules if rule.masks == group[0].masks]
                best = _best(cases, [rule for rule in group if rule.kind not in kinds])
                if best is None:
                    break
                rules = (*rules, best)
        return rules


def _best(cases: Sequence[CaseTables], candidates: Iterable[Rule]) -> Rule | None:
    """Returns the rule with the highest mean Dice; None if no rule increases it without lowering any mask's Dice."""
    before = _means([case.dice() for case in cases])
    best, highest = None, mean(before.values()) + _GAIN
    for rule in candidates:
        after = _means([case.dice(rule) for case in cases])
        has_fallen = any(after[name] < before[name] - _ROUNDING for name in before)
        if not has_fallen and mean(after.values()) > highest:
            best, highest = rule, mean(after.values()) + _ROUNDING
    return best


def _candidates(description: Description, has_probabilities: bool) -> list[list[Rule]]:
    """Returns the candidates for each mask, and for the union of all masks unless one mask is the union."""
    masks, groups = description.masks, []
    for name in masks if has_probabilities else ():
        groups.append([make_rule(THRESHOLD, (name,), description, value=value) for value in CANDIDATES])
    everything = {value for values in masks.values() for value in values}
    if all({*values} != everything for values in masks.values()):
        groups.append([make_rule(LARGEST, tuple(masks), description)])
    for name in masks:
        own = [make_rule(LARGEST, (name,), description)]
        inside = (make_rule(INSIDE, (name,), description, container=other) for other in masks if other != name)
        own += [rule for rule in inside if rule.container_labels]
        own += [make_rule(MIN_VOLUME, (name,), description, value=volume) for volume in VOLUMES]
        groups.append(own)
    return groups


def _measure(pair: Pair, *, rules: Sequence[Rule], candidates: Sequence[Rule], scoring: Scoring) -> CaseTables:
    """Reads a case, applies rules and returns its tables."""
    prediction, reference, spacing = read_labels(pair, scoring)
    own = scoring.description
    is_first = all(rule.kind == THRESHOLD for rule in rules)  # thresholds are chosen before rules for components
    thresholds = [rule for rule in candidates if is_first and rule.kind == THRESHOLD]
    changes = {rule: dict.fromkeys(own.masks, NOTHING) for rule in thresholds}
    for opened in read_open_voxels(pair.open_voxels) if pair.open_voxels is not None else ():
        labels, real = prediction[opened.region], reference[opened.region][opened.is_open]
        before = labels[opened.is_open]
        now = opened.changed(before, rules, own)
        if (now != before).any():
            labels[opened.is_open] = now
            prediction[opened.region] = labels
        overlaps = label_overlaps(now, real, own)
        for rule in thresholds:
            after = label_overlaps(opened.changed(before, [*rules, rule], own), real, own)
            changes[rule] = {name: one + after[name] - overlaps[name] for name, one in changes[rule].items()}
    for rule in rules:
        prediction = rule(prediction, spacing) if rule.kind != THRESHOLD else prediction
    components = [rule for rule in candidates if rule.kind != THRESHOLD]
    return dataclasses.replace(case_tables(prediction, reference, spacing, own, components), changes=changes)


def _means(cases: Sequence[Dice]) -> Dice:
    return {name: mean(dice[name] for dice in cases) for name in cases[0]}
