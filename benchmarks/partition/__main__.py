"""Times a training step of a 3D U-Net under layouts and compares it with the same step in plain TensorFlow.

Every contender runs in its own process, which stays alive. In each round, plain TensorFlow and up to --together
contenders take one step each, so other load on the machine affects all of them alike. Compare only ratios, and only
within one run.
"""

import argparse
import dataclasses
import datetime
import json
import shlex
import signal
import sys
from pathlib import Path

from benchmarks.partition import limit, machine, plot, summary, table
from benchmarks.partition.compare import Settings, compare, unequal
from benchmarks.partition.contender import KINDS, REFERENCE, Contender
from benchmarks.partition.networks import NETWORKS, Step
from benchmarks.partition.plan import comparisons

_CONTENDERS = "1x1,2x2,4x4,2x2x2,16x16,placement:2x2,nohalo:2x2,upstream:2x2,upstream:4x4,upstream:16x16,torch,jax:2x2"
_EXAMPLES = f"""
contenders, for instance --contenders 2x2,nohalo:2x2 (a mesh without a kind is stacked; {REFERENCE} is always included;
@127 or @127x128x64 after a contender is its own volume in voxels):
{table.kinds()}

networks:
  N1         convolutions, pools, leaky ReLUs
  N2         N1 with batch norms and dropout, as in the paper

examples:
  python -m benchmarks.partition
  python -m benchmarks.partition --resolution 64 --networks N1 --contenders 1x1,2x2 --rounds 10
  python -m benchmarks.partition --dtype bfloat16 --base_filters 32 --contenders 1x1,2x2
  python -m benchmarks.partition --weak 32
  python -m benchmarks.partition --contenders 2x2,2x2@127
  python -m benchmarks.partition --contenders torch --python torch=peers/bin/python
  python -m benchmarks.partition --show bench/partition.json

The output folder contains partition.json (all data), partition.md (the tables) and partition.png.
docs/evidence/performance.md explains the columns.
"""


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.partition",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    step, settings = Step("N1", (1, 1, 1)), Settings()
    add = parser.add_argument
    add("--networks", type=_networks, default=",".join(NETWORKS), help="networks (%(default)s)")
    add("--contenders", type=_contenders, default=_CONTENDERS, help="contenders (%(default)s)")
    add("--weak", type=_positive, metavar="VOXELS", help="measure growing meshes with VOXELS^3 per processor instead")
    add("--resolution", type=_sizes, default="128", help="voxels along x, y and z: 128, or 128,128,64 (%(default)s)")
    for name in ("batch", "base_filters", "depth", "convs"):
        add(f"--{name}", type=_positive, default=getattr(step, name), help="as in models/unet3d (%(default)s)")
    add("--dtype", choices=("float32", "bfloat16"), default=step.dtype, help="type of the activations (%(default)s)")
    add("--forward", action="store_true", help="end the step with the loss, without gradients")
    add("--rounds", type=_positive, default=settings.rounds, help="timed steps of each contender (%(default)s)")
    add("--together", type=_positive, default=5, help="contenders in memory at the same time, without tf (%(default)s)")
    add("--build_timeout", type=float, default=settings.build_timeout, help="seconds for a build (%(default)g)")
    add("--step_timeout", type=float, default=settings.step_timeout, help="seconds for a step (%(default)g)")
    add(
        "--python",
        type=_python,
        action="append",
        default=[],
        metavar="KIND=PATH",
        help="Python interpreter for a kind of contender",
    )
    add("--output_dir", type=Path, default=Path("bench"), help="folder for the results (%(default)s)")
    add(
        "--show",
        type=Path,
        metavar="JSON",
        help="write the tables and the picture of an earlier result, without measuring",
    )
    return parser


def _positive(text):
    if not (text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive integer")
    return int(text)


def _sizes(text):
    sizes = [_positive(word) for word in text.split(",")]
    if len(sizes) not in (1, 3):
        raise argparse.ArgumentTypeError(
            f"'{text}' has {len(sizes)} numbers; give one or three, for instance 128,128,64"
        )
    return tuple(sizes * (3 // len(sizes)))


def _networks(text):
    unknown = [word for word in text.split(",") if word not in NETWORKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is not known; choose from {', '.join(NETWORKS)}")
    return text.split(",")


def _contenders(text):
    try:
        return [Contender.parse(word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _python(text):
    kind, _, path = text.partition("=")
    if kind not in KINDS or not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"'{text}' is not KIND=PATH with a kind of contender and a Python interpreter")
    return kind, str(Path(path).absolute())


def _measure(arguments):
    settings = Settings(arguments.rounds, arguments.build_timeout, arguments.step_timeout, dict(arguments.python))
    for comparison in comparisons(arguments):
        print(f"{comparison.title}: {', '.join(map(str, comparison.contenders))}", flush=True)
        rows = compare(comparison.step, comparison.contenders, settings, _report)
        rate = limit.matrix_product_rate(comparison.step.dtype)
        summary.summarize(comparison.step, rows, rate)
        faults = unequal(comparison.step, rows)
        step = dataclasses.asdict(comparison.step)
        yield {"title": comparison.title, "step": step, "matrix_product_rate": rate, "rows": rows, "unequal": faults}


def _report(text):
    """Prints progress. Rounds overwrite each other in a terminal and are not printed elsewhere."""
    if not text.startswith("round "):
        print(f"  {text}", flush=True)
    elif sys.stdout.isatty():
        print(f"  {text}", end="\r", flush=True)


def _write(result, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partition.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "partition.md").write_text(table.markdown(result))
    plot.draw(result, folder / "partition.png")


def main(argv: list[str] | None = None) -> int:
    """Runs a command line and returns 1 if contenders that must have equal losses differ."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.show:
        try:
            result = json.loads(arguments.show.read_text())
        except (OSError, ValueError) as error:
            parser.error(f"--show {arguments.show}: {error}")
        _write(result, arguments.output_dir)
    else:
        result = {
            "command": shlex.join(["python", "-m", "benchmarks.partition", *argv]),
            "began": datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes"),
            "machine": machine.machine(),
            "versions": machine.versions(),
            "comparisons": [],
        }
        for comparison in _measure(arguments):
            result["comparisons"].append(comparison)
            _write(result, arguments.output_dir)  # keeps these results if the next comparison is interrupted
    print(f"\n{table.markdown(result)}\n{arguments.output_dir}/partition.json, .md and .png")
    faults = [fault for comparison in result["comparisons"] for fault in comparison["unequal"]]
    for fault in faults:
        print(f"NOT EQUAL: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    # SIGTERM ends the started processes, like Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
