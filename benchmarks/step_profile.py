"""Shows where the time of a training step goes, and the bytes that its operations read and write.

    python -m benchmarks.step_profile
    python -m benchmarks.step_profile --rows N2:bfloat16:8:1x1 --resolution 128

Each row is a step of `benchmarks.partition` in a new process, which TensorFlow's profiler traces after two steps. Its
time is divided equally among the operations that run at the same moment; "waiting" is the time without a running
operation, and the time of exchanges between processes. The bytes are those of all inputs and outputs of the graph's
operations, for a voxel of the image, before TensorFlow joins operations. They do not depend on other programs.
"""

import argparse
import collections
import math
import re
import tempfile
from pathlib import Path

from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step
from benchmarks.partition.process import Process
from benchmarks.tables import markdown

# The first pattern that occurs in "name of the operation:type" decides.
GROUPS = {
    "waiting": r":(Collective|_?Recv|_?Send)",
    "convolutions": r":\w*Conv",
    "norms": r"norm",
    "dropout": r"dropout",
    "activations": r"relu",
    "halos": r"(conv|pool|grow|classes).*:(Pad|Gather|Concat|Slice|StridedSlice|Tensor|Scatter)",
    "others": r"",
}
ROWS = ("N1:float32:8:2x2", "N2:bfloat16:8:1x1", "N2:bfloat16:8:2x2", "N2:float32:32:collective:2x2")
_TIMEOUT = 600.0  # seconds for each command of a contender
_VIEWS = {"Const", "ExpandDims", "Identity", "NoOp", "Placeholder", "ReadVariableOp", "Reshape", "Shape", "Squeeze"}


def group(name):
    """Returns the group of an operation.

    >>> group("unet3d/up0/conv1/PadV2:PadV2"), group("unet3d/up0/conv1/Conv3D:_MklNativeConv3D")
    ('halos', 'convolutions')
    """
    return next(key for key, pattern in GROUPS.items() if re.search(pattern, name))


def shares(spans):
    """Returns the part of the time of each group.

    >>> shares([(0, 4, "norms"), (2, 4, "halos"), (6, 10, "norms")])
    {'waiting': 0.2, 'norms': 0.7, 'halos': 0.1}

    Args:
      spans: (begin, end, group) of each operation.
    """
    moments = sorted([(at, change, key) for *ends, key in spans for at, change in zip(ends, (1, -1), strict=True)])
    times, running, last = collections.Counter(), collections.Counter(), moments[0][0]
    for at, change, key in moments:
        total = running.total()
        for name, count in running.items() if total else [("waiting", 1)]:
            times[name] += (at - last) * count / max(total, 1)
        last = at
        running[key] += change
    return {name: value / (moments[-1][0] - moments[0][0]) for name, value in times.items() if value}


def trace(run):
    """Calls a function, and returns (begin, end, group) of each operation that it runs."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(2, 0, 0))
        run()
        tf.profiler.experimental.stop()
        (path,) = Path(folder).rglob("*.xplane.pb")
        planes = xplane_pb2.XSpace.FromString(path.read_bytes()).planes
    spans = []
    for plane in planes:
        names = {number: each.name for number, each in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name, begin = names[event.metadata_id], line.timestamp_ns * 1000 + event.offset_ps
                if re.search(r"[^:\s]:\w", name):  # "name:type"; others are functions of the runtime
                    spans.append((begin, begin + event.duration_ps, group(name)))
    return spans


def traffic(graph, voxels):
    """Returns the bytes that the operations of each group read and write, for a voxel."""
    sizes = collections.Counter()
    for op in graph.get_operations():
        if op.type not in _VIEWS:
            tensors = [x for x in (*op.inputs, *op.outputs) if x.shape.num_elements() and x.dtype.size]
            sizes[group(f"{op.name}:{op.type}")] += sum(x.shape.num_elements() * x.dtype.size for x in tensors)
    return {key: size / voxels for key, size in sizes.items()}


def profile(built, parts):
    """Returns the parts of the time and the bytes a voxel of each group, for a contender of this package.

    Args:
      built: the contender, after some steps.
      parts: the number of processes, whose parts of the image are equally large.
    """
    graph, voxels = built._program.function.graph, math.prod(built._step.sizes) / parts
    return {"shares": shares(trace(built.take)), "bytes": traffic(graph, voxels)}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=ROWS, help="NETWORK:DTYPE:FILTERS:CONTENDER (%(default)s)")
    parser.add_argument("--resolution", type=int, default=64, help="voxels along each axis (%(default)s)")
    flags = parser.parse_args(argv)
    print(markdown(["", *GROUPS, "bytes a voxel"], []), flush=True)
    for row in flags.rows:
        network, dtype, filters, contender = row.split(":", 3)
        step = Step(network, (flags.resolution,) * 3, dtype=dtype, base_filters=int(filters))
        process = Process(Contender.parse(contender), step)
        for word in ("load", "build", "step", "step", "profile"):
            found = process.ask(word, _TIMEOUT)
        process.close()
        total = sum(found["bytes"].values())
        cells = [f"{found['shares'].get(key, 0):.0%} ({found['bytes'].get(key, 0):,.0f})" for key in GROUPS]
        print(f"| {row} | {' | '.join(cells)} | {total:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
