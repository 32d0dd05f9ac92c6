"""The section of the report about rules that remove components of the masks."""

from mtf_imaging.evaluation.mask_rules.choice import RulesReport
from mtf_imaging.evaluation.report.cells import shown, titled_table
from mtf_imaging.evaluation.report.markup import Markup, join, tag


def rules_section(rules: RulesReport) -> Markup:
    """Returns the section; it is empty if no rules were applied or chosen."""
    if not rules.fields:
        return Markup("")
    parts = [tag("h2", "Postprocessing")]
    if rules.applied:
        parts.append(tag("p", f"Rules that were applied to the predictions: {', '.join(rules.applied)}."))
    choice = rules.choice
    if choice is not None:
        chosen = ", ".join(map(str, choice.rules)) or "none, because no rule increases the mean Dice"
        parts.append(tag("p", f"Rules chosen on these {choice.num_cases} held-out cases: {chosen}."))
        rows = []
        for name, before in choice.without.items():
            honest = shown(choice.cross_validated and choice.cross_validated[name])
            cells = (f"{before:.3f}", f"{choice.chosen[name]:.3f}", honest)
            rows.append(tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)))
        head = ("mask", "without rules", "with rules", "cross-validated")
        parts.append(titled_table("Mean Dice of the cases", head, rows))
        note = (
            "All other scores on this page are those without rules. The Dice with rules is optimistic, because the "
            "rules were chosen on the same cases. For the cross-validated Dice, the rules of each part of the cases "
            "were chosen on the other parts."
        )
        parts.append(tag("p", note, class_="note"))
    return join(*parts)
