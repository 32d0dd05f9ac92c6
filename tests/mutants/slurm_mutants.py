"""Faults of the addresses that follow from the variables of Slurm."""

from tests.mutants.mutant import mutants

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/processes/slurm.py",
        "tests/engine/processes/test_processes.py",
        ("name == _NUM_TASKS_OF_JOB and _STEP not in environ", "False"),
        ("    if num_tasks == 1:\n        return None\n", ""),
        ("len(counts) != len(hosts) or sum(counts) != num_tasks or task >= num_tasks", "sum(counts) != num_tasks"),
        (
            "for node, count in enumerate(counts) for local in range(count)",
            "for local in range(max(counts)) for node, count in enumerate(counts) if local < count",
        ),
        ("if actual != position:", "if False:"),
        ("if actual != host:", "if False:"),
        ("base + local", "base"),
        (".zfill(len(first))", ""),
        ("range(int(first), int(last) + 1)", "range(int(first), int(last))"),
        ('* int(match["nodes"] or 1)', ""),
        ("_PRIME * (int(step) if step.isdecimal() else 0)", "0"),
    ),
]
