"""Times a training step of a 3D U-Net under layouts, beside the same step in plain TensorFlow, not partitioned.

Every contender is a process of its own; all are kept, and take one step in turn, round after round, so that what else
the machine does meanwhile falls on all alike. Compare ratios, and only those of one run.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import shlex
import sys
from pathlib import Path

from benchmarks.partition import machine, plot, summary, table
from benchmarks.partition.compare import Settings, compare, unequal
from benchmarks.partition.contender import REFERENCE, Contender
from benchmarks.partition.networks import NETWORKS, Step

_CONTENDERS = "1x1,2x2,4x4,2x2x2,16x16,placement:2x2,nohalo:2x2"
_EXAMPLES = f"""
contenders, as in --contenders 2x2,nohalo:2x2 (a mesh alone is stacked; {REFERENCE} always takes part):
{table.kinds()}

networks:
  N1         convolutions, pools, leaky ReLUs
  N2         the paper's: batch norms and dropout, too

examples:
  python -m benchmarks.partition
  python -m benchmarks.partition --resolution 64 --networks N1 --contenders 1x1,2x2 --rounds 10
  python -m benchmarks.partition --dtype bfloat16 --base_filters 32 --contenders 1x1,2x2
  python -m benchmarks.partition --show bench/partition.json

--output_dir gets partition.json (everything), partition.md (the tables) and partition.png; docs/performance.md says
what each column means.
"""


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.partition",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    step, settings = Step("N1", (1, 1, 1)), Settings()
    parser.add_argument("--networks", type=_networks, default=",".join(NETWORKS), help="default: %(default)s")
    parser.add_argument("--contenders", type=_contenders, default=_CONTENDERS, help="default: %(default)s")
    parser.add_argument("--resolution", type=_sizes, default="128", help="voxels: 128, or 128,128,64 (%(default)s)")
    for name in ("batch", "base_filters", "depth", "convs"):
        parser.add_argument(f"--{name}", type=_positive, default=getattr(step, name), help="default: %(default)s")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of activations")
    parser.add_argument("--rounds", type=_positive, default=settings.rounds, help="steps each (%(default)s)")
    parser.add_argument("--build_timeout", type=float, default=settings.build_timeout, help="seconds (%(default)g)")
    parser.add_argument("--step_timeout", type=float, default=settings.step_timeout, help="seconds (%(default)g)")
    parser.add_argument("--output_dir", type=Path, default=Path("bench"), help="folder of results (%(default)s)")
    parser.add_argument("--show", type=Path, metavar="JSON", help="measure nothing: table and picture of a result")
    return parser


def _positive(text):
    if not (text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return int(text)


def _sizes(text):
    sizes = [_positive(word) for word in text.split(",")]
    if len(sizes) not in (1, 3):
        raise argparse.ArgumentTypeError(f"'{text}' has {len(sizes)} numbers; give one, or three: 128,128,64")
    return tuple(sizes * (3 // len(sizes)))


def _networks(text):
    unknown = [word for word in text.split(",") if word not in NETWORKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is not known; there are {', '.join(NETWORKS)}")
    return text.split(",")


def _contenders(text):
    try:
        return list(dict.fromkeys(Contender.parse(word) for word in text.split(",")))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _measure(arguments):
    settings = Settings(arguments.rounds, arguments.build_timeout, arguments.step_timeout)
    reference = Contender(REFERENCE)
    contenders = [reference, *(c for c in arguments.contenders if c != reference)]
    fields = {name: getattr(arguments, name) for name in ("batch", "base_filters", "depth", "convs", "dtype")}
    for network in arguments.networks:
        step = Step(network, arguments.resolution, **fields)
        size = " x ".join(map(str, step.sizes))
        title = f"{network}, {size} voxels, {step.base_filters} filters, batch {step.batch}, {step.dtype}"
        print(title, flush=True)
        rows = compare(step, contenders, settings, say=_say)
        summary.summarise(rows)
        yield {"title": title, "step": dataclasses.asdict(step), "rows": rows, "unequal": unequal(step, rows)}


def _say(text):
    """Rounds overwrite each other on a terminal, and are not told of elsewhere."""
    if text.startswith("round "):
        if sys.stdout.isatty():
            print(f"\r  {text}", end="", flush=True)
    else:
        print(f"\r  {text}", flush=True)


def _write(result, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partition.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "partition.md").write_text(table.markdown(result))
    plot.draw(result, folder / "partition.png")


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.show:
        result = json.loads(arguments.show.read_text())
        _write(result, arguments.output_dir)
    else:
        words = sys.argv[1:] if argv is None else argv
        result = {
            "command": shlex.join(["python", "-m", "benchmarks.partition", *words]),
            "began": datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes"),
            "machine": machine.machine(),
            "versions": machine.versions(),
            "comparisons": [],
        }
        for comparison in _measure(arguments):
            result["comparisons"].append(comparison)
            _write(result, arguments.output_dir)  # what there is, should the next one be interrupted
    print(f"\n{table.markdown(result)}\n{arguments.output_dir}/partition.json, .md and .png")
    faults = [fault for comparison in result["comparisons"] for fault in comparison["unequal"]]
    for fault in faults:
        print(f"NOT EQUAL: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
