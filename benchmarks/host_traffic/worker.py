"""One process of a measured step: `python -m benchmarks.host_traffic.worker SETUP STEPS`, started with TF_CONFIG.

It prints, as JSON, how much its host's network counters grow in STEPS steps and in twice as many.
"""

import json
import sys
from pathlib import Path

_COUNTERS = Path("/sys/class/net/eth0/statistics")
_NAMES = ("tx_bytes", "rx_bytes", "tx_packets")
_WARM_UP = 2  # warm-up steps, in which TensorFlow compiles the graph and the processes agree on its exchanges


def main() -> None:
    from mtf_imaging.engine.meshes import runtime

    joined = runtime.join()
    from benchmarks.host_traffic.setup import Setup
    from benchmarks.partition.ours import describe_step
    from mtf_imaging.engine.layout import Layout

    setup, steps = Setup(**json.loads(sys.argv[1])), int(sys.argv[2])
    built = describe_step(setup.step).build(Layout.parse(setup.mesh_shape, setup.layout), "collective")
    batch = built.program.cut(**dict(zip(("image", "labels"), setup.step.inputs(), strict=True)))

    def run(count: int) -> list[int]:
        """Runs steps, and returns the growth of the counters."""
        joined.barrier()
        before = _read_counters()
        for _ in range(count):
            built.call_slices(**batch)
        joined.barrier()
        return [now - then for then, now in zip(before, _read_counters(), strict=True)]

    run(_WARM_UP)
    print(json.dumps([run(steps), run(2 * steps)]), flush=True)


def _read_counters() -> list[int]:
    return [int((_COUNTERS / name).read_text()) for name in _NAMES]


if __name__ == "__main__":
    main()
