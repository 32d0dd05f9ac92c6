"""Formats results as Markdown tables, for the output and for partition.md."""

from benchmarks.partition.contender import KINDS
from benchmarks.partition.plan import format_sizes

_HEAD = (
    "contender",
    "build",
    "nodes",
    "first step",
    "step (quartiles)",
    "a voxel",
    "GFLOP/s (of matmul)",
    "ratio to tf (95%)",
    "peak memory",
    "x tf",
    "over import",
    "x tf",
    "losses off by",
)


def markdown(result: dict) -> str:
    """Returns a result as Markdown: the command, the machine, and a table for each title."""
    machine, versions = result["machine"], result["versions"]
    lines = [
        f"`{result['command']}`",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB"
        + "".join(f", {gpu}" for gpu in machine["gpus"])
        + f"; {machine['system']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f"; {result['began']}.",
    ]
    for title, rows in groups(result).items():
        lines += ["", f"**{title}**", "", *_table(rows)]
        failed = [f"- {name}: {row['error']}" for name, row in rows if row["error"]]
        lines += ["", *failed] if failed else []
    return "\n".join(lines) + "\n"


def groups(result: dict) -> dict[str, list[tuple[str, dict]]]:
    """Returns {title: [(name, row), ...]}; the names contain the volume if a title has several volumes."""
    by_title = {}
    for comparison in result["comparisons"]:
        by_title.setdefault(comparison["title"], []).append(comparison)
    return {title: list(_named(group)) for title, group in by_title.items()}


def _named(group):
    """Yields (name, row) for the rows of comparisons, with one row of the reference for each volume."""
    volumes = [format_sizes(comparison["step"]["sizes"]) for comparison in group]
    seen = set()
    for volume, comparison in zip(volumes, group):
        for row in comparison["rows"]:
            name = row["contender"] if len(set(volumes)) == 1 else f"{volume}, {row['contender']}"
            if name not in seen:
                seen.add(name)
                yield name, row


def _table(rows):
    cells = [_HEAD, *(_cells(name, row) for name, row in rows if row.get("quartiles_s"))]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return lines


def _cells(name, row):
    def of(key, form):
        value = row.get(key)
        return "" if value is None else form(value)

    return (
        name,
        of("build_s", lambda s: f"{s:.1f} s"),
        of("nodes", lambda n: f"{n:,}"),
        of("first_s", lambda s: f"{s:.2f} s"),
        of("quartiles_s", lambda q: f"{q[1]:.3f} s ({q[0]:.3f}-{q[2]:.3f})"),
        of("ns_a_voxel", lambda ns: f"{ns:,.0f} ns"),
        of("flop_rate", lambda rate: f"{rate / 1e9:,.0f}{_share(row.get('flop_rate_ratio'))}"),
        of("ratio", lambda r: f"{r:.2f} ({row['ratio_interval'][0]:.2f}-{row['ratio_interval'][1]:.2f})"),
        of("memory_bytes", lambda b: f"{b / 2**20:,.0f} MiB"),
        of("memory_ratio", lambda r: f"{r:.2f}"),
        of("over_import_bytes", lambda b: f"{b / 2**20:,.0f} MiB"),
        of("over_import_ratio", lambda r: f"{r:.2f}"),
        of("loss_differs", lambda d: f"{max(d):.0e}"),
    )


def _share(ratio):
    return "" if ratio is None else f" ({ratio:.0%})"


def kinds() -> str:
    """Returns the contender kinds with their descriptions, one per line."""
    return "\n".join(f"  {kind:10} {text}" for kind, (_, _, text) in KINDS.items())
