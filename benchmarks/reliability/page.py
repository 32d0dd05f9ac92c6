"""Writes the tables of docs/evidence/reliability.md from the results in docs/figures/."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.figures import FIGURES, with_table
from benchmarks.reliability import bad_inputs, environment, full_disk, kills, mutations, processes
from benchmarks.reliability.results import ROOT
from benchmarks.tables import markdown

PAGE = ROOT / "docs/evidence/reliability.md"
_COMMAND = "python -m benchmarks.reliability {part} --output_dir DIR"
Rows = list[dict[str, str]]


def copy(output_dir: Path) -> None:
    """Copies the results of the measured parts, keeping the last row of each."""
    for part in (bad_inputs, kills, full_disk, environment, processes, mutations):
        file = part.results(output_dir)
        if file.path.exists():
            part.results(FIGURES).replace(file.rows())


def write() -> None:
    """Writes the tables to the page."""
    text = PAGE.read_text()
    for name, table in tables().items():
        text = with_table(text, name, table)
    PAGE.write_text(text)


def tables() -> dict[str, str]:
    """Returns the tables in Markdown."""
    parts = {
        "bad inputs": (bad_inputs, bad_input_table),
        "kills": (kills, kill_table),
        "full disk": (full_disk, disk_table),
        "environment": (environment, environment_table),
        "signals": (processes, signal_table),
        "peers": (processes, peer_table),
        "mutations": (mutations, mutation_table),
    }
    tables = {"reliability totals": _totals()}
    for name, (part, table) in parts.items():
        rows = part.results(FIGURES).rows()
        tables[name] = table(rows) if rows else "Not measured yet."
    return tables


def bad_input_table(rows: Rows) -> str:
    """Returns a table with one row per kind, and one for all."""
    body = [_input_row(kind, [row for row in rows if row["kind"] == kind]) for kind in _unique(rows, "kind")]
    head = ["kind", "inputs", "refused with file and fix", "right result", "warned", "failed", "longest time"]
    return markdown(head, [*body, _input_row("all", rows)]) + _stamp("bad_inputs", rows)


def kill_table(rows: Rows) -> str:
    """Returns a table with one row per command, and one for all."""
    head = ["command", "kills", "while it wrote", "rerun equal, nothing half-written", "failed"]

    def row_of(name: str, part: Rows) -> list[str]:
        halfway = sum(0 < int(row["written"]) < int(row["files"]) for row in part)
        return [name, *map(str, (len(part), halfway, _count(part, "equal"), _count(part, "failed")))]

    return _by_command(head, rows, row_of) + _stamp("kills", rows)


def disk_table(rows: Rows) -> str:
    """Returns a table with one row per command."""
    head = ["command", "full disks", "refused, rerun equal", "fitted", "failed"]

    def row_of(name: str, part: Rows) -> list[str]:
        return [name, str(len(part)), *(str(_count(part, outcome)) for outcome in ("equal", "fitted", "failed"))]

    return _by_command(head, rows, row_of) + _stamp("full_disk", rows)


def environment_table(rows: Rows) -> str:
    """Returns a table with one row per condition."""
    body = []
    for condition in _unique(rows, "condition"):
        part = [row for row in rows if row["condition"] == condition]
        names = {
            outcome: ", ".join(row["command"] for row in part if row["outcome"] == outcome)
            for outcome in ("right", "refused", "failed")
        }
        body.append([part[0]["kind"], condition, *names.values()])
    head = ["kind", "condition", "right result", "refused with a fix", "failed"]
    return markdown(head, body) + _stamp("environment", rows)


def signal_table(rows: Rows) -> str:
    """Returns a table with one row per signal to processes that train together, and one for all."""
    rows = [row for row in rows if row["kind"] == processes.DRAWN]
    head = [
        "signal",
        "trials",
        "moments",
        "processes",
        "resumed with",
        "same weights",
        "failed",
        "longest time",
    ]

    def row_of(name: str, part: Rows) -> list[str]:
        cells = [name, str(len(part)), ", ".join(_unique(part, "moment")) if name != "all" else ""]
        for column in ("processes", "resumed"):
            cells.append(", ".join(sorted({row[column] for row in part} - {""})))
        longest = max(float(row["ended_s"]) for row in part)
        return [*cells, str(_count(part, "equal")), str(_count(part, "failed")), f"{longest:.0f} s"]

    body = [row_of(name, [row for row in rows if row["fault"] == name]) for name in _unique(_sorted(rows), "fault")]
    return markdown(head, [*body, row_of("all", rows)]) + _stamp("processes", rows)


def peer_table(rows: Rows) -> str:
    """Returns a table with one row per single fault of processes that train together."""
    rows = [row for row in rows if row["kind"] == processes.ONE]
    head = ["fault of process 1", "processes", "exit codes", "time", "resumed with", "result"]
    names = {"equal": "same weights", "failed": "failed", "skipped": "not tried"}
    body = [
        [row["trial"], row["processes"], row["codes"], f"{row['ended_s']} s", row["resumed"], names[row["outcome"]]]
        for row in rows
    ]
    return markdown(head, body) + _stamp("processes", rows)


def mutation_table(rows: Rows) -> str:
    """Returns a table with one row per kind of file, and one for all."""
    columns = ("mutations", "read", "refused", "failed")
    body = [[row["kind"], *(row[name] for name in columns)] for row in rows]
    total = ["all", *(str(sum(int(row[name]) for row in rows)) for name in columns)]
    return markdown(["kind", *columns], [*body, total]) + _stamp("mutations", rows)


def _totals() -> str:
    rows = []
    for name, part in (
        ("bad inputs", bad_inputs),
        ("kills", kills),
        ("full disks", full_disk),
        ("environments", environment),
        ("faults of several processes", processes),
    ):
        all_rows = part.results(FIGURES).rows()
        failed = _count(all_rows, "failed")
        tracebacks = sum("traceback" in row["reason"].lower() for row in all_rows)
        rows.append([name, *map(str, (len(all_rows), len(all_rows) - failed, failed, tracebacks))])
    return markdown(["tried", "number", "as expected", "failed", "tracebacks"], rows)


def _input_row(kind: str, rows: Rows) -> list[str]:
    counts = [str(_count(rows, outcome)) for outcome in ("refused", "right", "warned", "failed")]
    return [kind, str(len(rows)), *counts, f"{max(float(row['seconds']) for row in rows):.0f} s"]


def _by_command(head: Sequence[str], rows: Rows, row_of: Callable[[str, Rows], list[str]]) -> str:
    body = [row_of(f"`{name}`", [row for row in rows if row["command"] == name]) for name in _unique(rows, "command")]
    return markdown(head, [*body, row_of("all", rows)])


def _count(rows: Rows, outcome: str) -> int:
    return sum(row["outcome"] == outcome for row in rows)


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["fault"])


def _unique(rows: Rows, column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def _stamp(part: str, rows: Rows) -> str:
    dates, commits = (sorted({row[name] for row in rows}) for name in ("date", "commit"))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    where = f"commit {commits[0]}" if len(commits) == 1 else f"commits {', '.join(commits)}"
    return f"\n\nMeasured on {when}, {where}, with `{_COMMAND.format(part=part)}`."
