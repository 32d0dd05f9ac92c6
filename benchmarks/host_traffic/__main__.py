"""Prints a table of the bytes between hosts in a training step, as `explain --num_hosts` expects and as measured.

The hosts are network namespaces of this machine, which only root can create. Their network interfaces count the bytes.
Start-up is excluded: the table contains the difference between N and 2 N steps.
"""

import argparse
import dataclasses
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.host_traffic.measure import measure
from benchmarks.host_traffic.setup import Setup, expect
from tests.hosts.network import why_not

_EXAMPLES = """
examples:
  python -m benchmarks.host_traffic
  python -m benchmarks.host_traffic --networks N1 --sizes 16 32 64 --steps 10
"""
SETUPS = (
    Setup("x", "rows:2", "x:rows"),
    Setup("x and y", "rows:2,cols:2", "x:rows,y:cols", processes=2),
    Setup("batch", "cores:2", "batch:cores", batch=2),
    Setup("x", "rows:3", "x:rows", num_hosts=3),
    Setup("batch", "cores:3", "batch:cores", num_hosts=3, batch=3),
)
_COLUMNS = (
    *("network", "voxels", "split", "hosts", "processes per host", "explain, bytes", "measured", "ratio"),
    *("headers", "exchanges", "rest per exchange"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.host_traffic",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--networks", nargs="+", default=["N1", "N2"], help="networks (%(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[96], help="voxels along x, y and z (%(default)s)")
    parser.add_argument("--base_filters", type=int, default=8, help="filters of the first block (%(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="N (%(default)s)")
    arguments = parser.parse_args()
    if reason := why_not():
        text = f"this system cannot create network namespaces: {reason.strip()}. Fix: run it as root, on Linux."
        parser.exit(1, f"{parser.prog}: {text}\n")
    print(f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}", flush=True)
    for network in arguments.networks:
        for size in arguments.sizes:
            common = {"network": network, "size": size, "base_filters": arguments.base_filters}
            for setup in SETUPS:
                print(_row(dataclasses.replace(setup, **common), arguments.steps), flush=True)


def _row(setup: Setup, steps: int) -> str:
    expected, measured = expect(setup), measure(setup, steps)
    rest = (measured.busiest - expected.nbytes) / expected.exchanges
    cells = (
        *(setup.network, f"{setup.size}^3", setup.title, setup.num_hosts, setup.processes),
        *(f"{expected.nbytes:,.0f}", f"{measured.busiest:,.0f}", f"{measured.busiest / expected.nbytes:.4f}"),
        *(f"{measured.headers:,.0f}", expected.exchanges, f"{rest:,.0f}"),
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
