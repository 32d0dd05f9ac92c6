"""Builds the training step of one process of a collective mesh, and prints its graph and the bytes that it sends.

No other process is started, so one machine can measure meshes of any size. The graph of a process does not depend on
the number of processes, only on its place in the mesh: a process at a corner has fewer neighbors than one inside.
"""

import argparse
import math
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import NETWORKS, Step

_EXAMPLES = """
examples:
  python -m benchmarks.process_graphs
  python -m benchmarks.process_graphs --networks N1 --meshes 4x4,16x16 --resolution 64
"""
_HEADER = "| network | mesh | process | nodes | build | exchanges | sent |\n| --- | --- | --- | --- | --- | --- | --- |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.process_graphs",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--networks", default=",".join(NETWORKS), help="networks (%(default)s)")
    parser.add_argument("--meshes", default="2x2,4x4,8x8,16x16", help="meshes, one process per processor (%(default)s)")
    parser.add_argument("--resolution", type=int, default=128, help="voxels along x, y and z (%(default)s)")
    arguments = parser.parse_args()
    print(_HEADER, flush=True)
    for network in arguments.networks.split(","):
        for mesh in arguments.meshes.split(","):
            contender = Contender.parse(f"collective:{mesh}")
            places = {"corner": [0] * len(contender.mesh), "inside": [size // 2 for size in contender.mesh]}
            for place, at in places.items():
                step = Step(network, (arguments.resolution,) * 3)
                row = measure(step, contender, at)
                print(
                    f"| {network} | {mesh} | {place} | {row['nodes']:,} | {row['build_s']:.1f} s | {row['exchanges']} "
                    f"| {row['sent'] / 2**20:.1f} MiB |",
                    flush=True,
                )


def measure(step: Step, contender: Contender, at: list[int]) -> dict:
    """Builds a step as the process at the given mesh coordinates.

    Args:
      step: the step.
      contender: a contender of the kind "collective".
      at: coordinates of the process.

    Returns:
      A dict with the program, the number of nodes, the seconds of the build, the number of collectives and the bytes
      that the process sends in a step.
    """
    from benchmarks.partition.ours import build_program
    from mtf_imaging.engine.meshes.grid import ShardGrid
    from mtf_imaging.engine.meshes.runtime import rehearse
    from mtf_imaging.engine.processes.addresses import Address
    from mtf_imaging.engine.processes.processes import Processes

    grid = ShardGrid.make(contender.mesh, contender.processors)
    addresses = tuple(Address("127.0.0.1", 1 + port) for port in range(contender.processors))
    begin = time.perf_counter()
    with rehearse(Processes(addresses, grid.shard_number(at))):
        program = build_program(step, contender, "collective")
    seconds = time.perf_counter() - begin
    operations = program.function.graph.get_operations()
    sent = [bytes_sent(op) for op in operations if op.type.startswith("Collective")]
    return {"program": program, "nodes": len(operations), "build_s": seconds, "exchanges": len(sent), "sent": sum(sent)}


def bytes_sent(op) -> int:
    """Returns the bytes that a process sends in a collective operation.

    A sum is a ring all-reduce, and a gather is a ring, too. An all-to-all between two sends the other's row.
    """
    import tensorflow as tf

    x, n = op.inputs[0], int(tf.get_static_value(op.inputs[1]))  # the second input is the size of the group
    nbytes = math.prod(x.shape) * x.dtype.size
    shares = {"CollectiveReduceV2": 2 * (n - 1) / n, "CollectiveGatherV2": n - 1, "CollectiveAllToAllV2": (n - 1) / n}
    return int(nbytes * shares[op.type])


if __name__ == "__main__":
    main()
