"""Faults of processes/: the addresses of the pods of a Job."""

from tests.mutants.mutant import mutants

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/processes/kubernetes.py",
        "tests/engine/processes/test_kubernetes.py",
        ('if not environ.get(_NUM, "").strip():', 'if not environ.get(_INDEX, "").strip():'),
        ("if num == 0:", "if num < 0:"),
        ("if num == 1:", "if num == 2:"),
        ("if index >= num:", "if index > num:"),
        ("for pod in range(num)), index)", "for pod in range(1, num + 1)), index)"),
        ('f"{job}-{pod}.{service}"', 'f"{job}-{index}.{service}"'),
        ("_SERVICE_NAME.fullmatch(service)", "_SERVICE_NAME.match(service)"),
        ('host.removesuffix(f"-{index}")', "host.removesuffix(str(index))"),
        ('if job in ("", host):', "if job == host:"),
    ),
    *mutants(
        "mtf_imaging/engine/processes/processes.py",
        "tests/engine/processes/test_kubernetes.py",
        ("find_pods(environ) or find_step(environ)", "find_step(environ) or find_pods(environ)"),
    ),
]
