"""Provenance as rows of a table, for reports and for `mtf-imaging info`."""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from mtf_imaging.files.provenance.digests import SHOWN
from mtf_imaging.files.provenance.package import Package

UNKNOWN = "not recorded"
_LISTED = 500  # longer lists of training cases are only counted
_VALUE = 120  # characters of a rule; JSON files contain the full text
_WIDTH = 120
_DIFFERENCE = 60  # characters shown of a long value that differs

Row = tuple[str, str]


def provenance_rows(fields: Mapping[str, Any] | None) -> list[Row]:
    """Returns the provenance of a prediction, an evaluation or an export as rows (name, text).

    Args:
      fields: the result of `Provenance.as_json`, read from a file; None if the file has no provenance.
    """
    if not fields:
        return [("program", UNKNOWN)]
    runs = _maps(fields.get("runs"))
    rows = [("program", package_text(fields.get("package")))]
    for run in runs:
        rows += [(name if len(runs) == 1 else f"{run.get('name')}: {name}", text) for name, text in run_rows(run)]
    rows += [(name.replace("_", " "), _rule(name, value)) for name, value in _map(fields.get("rules")).items()]
    if layout := _map(fields.get("layout")):
        rows.append(("layout", layout_text(layout)))
    if files := _map(fields.get("files")):
        rows.append(("files", f"{counted(len(files), 'entry', 'entries')}, {short(fields.get('files_sha256'))}"))
    return rows


def run_rows(run: Mapping[str, Any]) -> list[Row]:
    """Returns the rows for a run's checkpoint; see `TrainedRun.as_json`."""
    selected = f"{run.get('checkpoint')} ({run.get('selection')})"
    return [
        ("run", str(run.get("name"))),
        ("checkpoint", f"{selected}, step {run.get('step')}, {short(run.get('checkpoint_sha256'))}"),
        ("configuration", short(run.get("configuration_sha256"))),
        *training_rows(run.get("training")),
    ]


def training_rows(training: object) -> list[Row]:
    """Returns the rows for a run's training, from `run.json`; see `runs.training_provenance`.

    If the configuration has changed between starts, each start names its own.

    >>> starts = [{"step": 0, "configuration_sha256": "0a"}, {"step": 4, "configuration_sha256": "1b"}]
    >>> training_rows({"starts": starts})[1]
    ('trained from step 4', 'not recorded, layout not recorded, configuration 1b')
    """
    fields = _map(training)
    rows = []
    starts = _maps(fields.get("starts"))
    differ = len({start.get("configuration_sha256") for start in starts}) > 1
    for start in starts:
        text = f"{package_text(start)}, layout {layout_text(start)}"
        text += f", configuration {short(start.get('configuration_sha256'))}" if differ else ""
        rows.append((f"trained from step {start.get('step')}", text))
    cases = fields.get("training_cases")
    digest = starts[-1].get("training_cases_sha256") if starts else None
    if isinstance(cases, Mapping) and cases:
        listed = f": {', '.join(map(str, cases))}" if len(cases) <= _LISTED else ""
        rows.append(("training cases", f"{len(cases)}, {short(digest)}{listed}"))
    else:
        rows.append(("training cases", short(digest)))
    return rows or [("training cases", UNKNOWN)]


def parse_provenance(text: str) -> dict[str, Any]:
    """Returns the fields of a provenance in JSON; {} for the short text of NIfTI headers."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def package_text(fields: object) -> str:
    """Returns the name, version and commit of a package from its fields."""
    own = _map(fields)
    if not own.get("version"):
        return UNKNOWN
    commit = own.get("commit")
    text = Package(str(own["version"]), None if commit is None else str(commit)).text
    return text if commit else f"{text}, commit unknown"


def layout_text(fields: Mapping[str, Any]) -> str:
    """Returns a layout with its mesh.

    >>> layout_text({"mesh_shape": "rows:2", "layout": "x:rows"}), layout_text({"mesh_shape": "", "layout": ""})
    ('x:rows on the mesh rows:2', 'none')
    """
    if "layout" not in fields:
        return UNKNOWN
    return f"{fields['layout']} on the mesh {fields.get('mesh_shape')}" if fields["layout"] else "none"


def short(digest: object) -> str:
    """Returns the first digits of a digest."""
    return str(digest)[:SHOWN] if digest else UNKNOWN


def counted(number: int, one: str, several: str) -> str:
    """Returns a number with its noun."""
    return f"{number} {one if number == 1 else several}"


def difference(first: str, second: str) -> tuple[str, str]:
    """Formats two values for a message; long values are cut to the place where they differ.

    >>> difference("Net(filters=2, depth=3" + " " * 90 + ")", "Net(filters=2, depth=4)")
    ('...depth=3', '...depth=4)')
    """
    if max(len(first), len(second)) <= _DIFFERENCE:
        return first, second
    same = next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    start = max((match.end() for match in re.finditer(r"[(,]\s*", first[:same])), default=0)
    dots = "..." if start else ""
    return tuple(f"{dots}{re.split(r',', text[start:])[0][:_DIFFERENCE].strip()}" for text in (first, second))  # type: ignore[return-value]


def as_table(rows: Sequence[Row]) -> str:
    """Returns rows as plain text in two columns.

    >>> print(as_table([("run", "a"), ("checkpoint", "ckpt-4")]))
    run         a
    checkpoint  ckpt-4
    """
    width = max((len(name) for name, _ in rows), default=0)
    options: dict[str, Any] = {"subsequent_indent": " " * (width + 2), "break_long_words": False}
    options |= {"break_on_hyphens": False}
    return "\n".join(textwrap.fill(f"{name:{width}}  {text}", _WIDTH, **options) for name, text in rows)


def _rule(name: str, value: object) -> str:
    return short(value) if name.endswith("_sha256") else _value(value)


def _value(value: object) -> str:
    """Returns a rule as text.

    >>> _value({"largest_liver": True}), _value(["x", "y"]), _value([]), _value("")
    ('largest_liver: True', 'x, y', 'none', 'none')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_value(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or "none"
    text = "none" if value is None or value == "" else str(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
