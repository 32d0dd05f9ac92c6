"""`cleanup.json`: the rules that were chosen on held-out cases, in the folder of a run or of a cross-validation."""

import json
from pathlib import Path

from mtf_imaging.data.description.description import Description
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.mask_rules.choice import Choice
from mtf_imaging.evaluation.mask_rules.rule import Rule, rule_of_fields
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import read_object

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
