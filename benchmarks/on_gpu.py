"""Answers in one sitting the questions that only a GPU can answer: `python -m benchmarks.on_gpu --minutes 15`.

The questions are asked one after the other, the most valuable first, each in a process of its own with a time limit.
After each of them, the output folder contains everything that is known: on_gpu.md, on_gpu.json and the output of every
process. The command never takes longer than `--minutes`: a question that would is cut short, and the next ones are left
out. A rehearsal without a GPU:

    python -m benchmarks.on_gpu --minutes 10 --sizes 16 16 --rounds 1
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.partition import machine
from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step
from benchmarks.tables import markdown

ROOT = Path(__file__).parents[1]
BUDGET = 900  # seconds for which the limits of the questions are set
_GRACE, _LEAST = 5, 15  # seconds in which a process can end; the fewest with which one starts
_TOLERANCE = 1e-5  # of the largest value
_LINES = 12  # of the output, in the table
_EXACT = {"NVIDIA_TF32_OVERRIDE": "0"}  # float32 convolutions with all 24 bits
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "PYTHONUNBUFFERED": "1"}


@dataclasses.dataclass(frozen=True)
class Question:
    """A question, and the command that answers it.

    Attributes:
      name: a short name, also of its files.
      text: the question.
      seconds: the time limit if there are `BUDGET` seconds for all questions.
      words: the command, a module and its arguments.
      exact: whether convolutions in float32 use all bits.
    """

    name: str
    text: str
    seconds: int
    words: tuple[str, ...]
    exact: bool = False


def questions(sizes: tuple[int, int], rounds: int, folder: Path) -> list[Question]:
    """Returns all questions, the most valuable first.

    Args:
      sizes: voxels along each axis of the small and the large volume.
      rounds: the steps to time.
      folder: the output folder.
    """
    small, large = sizes

    def steps(network: str, size: int, dtype: str, seconds: int, contenders: str = "1x1,2x2", more: str = ""):
        name, text = f"{network}_{size}_{dtype}{more}", "How fast is a step, beside plain TensorFlow?"
        words = ["--networks", network, "--contenders", contenders, "--resolution", size, "--dtype", dtype]
        words += ["--base_filters", 32 if size == large > small else 8, "--rounds", rounds]
        words += ["--build_timeout", seconds, "--step_timeout", 60, "--output_dir", folder / name]
        return Question(name, text, seconds, ("benchmarks.partition", *map(str, words)))

    def memory(name: str, *more: str):
        words = ("--size", str(large), "--base_filters", "32" if large > small else "8", *more)
        text = "How close is the plan to the memory of the device?"
        return Question(f"memory_{name}", text, 60, ("benchmarks.step_memory", *words))

    own = ("benchmarks.on_gpu", "--sizes", str(small), str(large), "--only")
    demo = ("mtf_imaging.cli.main", "demo", "--output_dir", str(folder / "demo_run"))
    xla = "tf_xla,xla:1x1,xla:2x2", "_xla"
    return [
        Question("kernels", "Does every operation of a step have a kernel for the device?", 60, (*own, "kernels")),
        steps("N2", small, "float32", 90),
        Question("operations", "Are the operations of the documentation exact?", 60, (*own, "operations"), exact=True),
        steps("N2", large, "bfloat16", 90),
        memory("kept"),
        steps("N2", small, "float32", 120, *xla),
        steps("N1", large, "float32", 90, "1x1,turns:8", "_turns"),
        memory("recomputed", "--recompute"),
        steps("N1", small, "float32", 60),
        steps("N2", large, "bfloat16", 120, *xla),
        Question("demo", "Does the whole workflow run?", 180, demo),
        memory("split", "--mesh_shape", "rows:2,cols:2", "--layout", "x:rows,y:cols"),
        *(
            steps(*rest, 90)
            for rest in (("N2", large, "float32"), ("N2", small, "bfloat16"), ("N1", large, "bfloat16"))
        ),
    ]


def ask(question: Question, seconds: float, folder: Path) -> dict:
    """Runs the command of a question for at most `seconds`, and returns what is known then."""
    began, environment = time.monotonic(), os.environ | _ENVIRONMENT | (_EXACT if question.exact else {})
    with open(folder / f"{question.name}.txt", "wb") as output, open(folder / f"{question.name}.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *question.words],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=log,
            start_new_session=True,  # ends together with its children
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds - _GRACE)
        state = "cut short" if process.poll() is None else f"failed ({process.returncode})" * bool(process.returncode)
        process.terminate()  # benchmarks.partition then ends the processes that it has started
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return {
        "name": question.name,
        "question": question.text,
        "command": shlex.join(["python", "-m", *question.words]),
        "seconds": round(time.monotonic() - began, 1),
        "state": state or "done",
        "answer": _answer(folder, question.name),
    }


def _answer(folder: Path, name: str) -> list[str]:
    """Returns the ratios of a comparison, or the last lines that a command has printed."""
    result = folder / name / "partition.json"
    if result.is_file():
        rows = [row for comparison in json.loads(result.read_text())["comparisons"] for row in comparison["rows"]]
        return [f"{row['contender']}: {row['error'] or _shown(row)}" for row in rows]
    output, log = ((folder / f"{name}.{kind}").read_text(errors="replace").split("\n") for kind in ("txt", "log"))
    return [line.strip() for line in [*output[-_LINES:], *(log[-2:] if len(output) == 1 else [])] if line.strip()]


def _shown(row: dict) -> str:
    ratio = f", {row['ratio']:.2f} of tf" if "ratio" in row else ""
    return f"{row['quartiles_s'][1] * 1000:.1f} ms{ratio}, {row['memory_bytes'] / 2**30:.2f} GiB"


def write(folder: Path, answers: list[dict]) -> None:
    """Writes all answers to on_gpu.json and on_gpu.md."""
    facts = {"machine": machine.machine(), "versions": machine.versions(), "answers": answers}
    (folder / "on_gpu.json").write_text(json.dumps(facts, indent=1) + "\n")
    rows = [
        (f"{one['name']}: {one['question']}", "<br>".join(one["answer"]), one["state"], f"{one['seconds']:.0f} s")
        for one in answers
    ]
    table = markdown(("question", "answer", "state", "time"), rows)
    (folder / "on_gpu.md").write_text(f"{json.dumps(facts['machine'])}\n\n{json.dumps(facts['versions'])}\n\n{table}\n")


def kernels(size: int) -> None:
    """Runs a step with an error for each operation that has no kernel on the device of its tensors."""
    import tensorflow as tf

    from mtf_imaging.errors import reason

    print(f"TensorFlow {tf.__version__}: {[device.name for device in tf.config.list_physical_devices()]}")
    tf.config.set_soft_device_placement(False)
    for dtype, word in itertools.product(("float32", "bfloat16"), ("1x1", "2x2", "xla:2x2")):
        contender, step = Contender.parse(word), Step("N2", (size,) * 3, dtype=dtype)
        built = contender.load(step)
        try:
            built.build()
            answer = f"loss {built.take():.6f}"
        except (ValueError, tf.errors.OpError) as error:
            answer = reason(error)
        print(f"{dtype} {word}: {answer}")


def operations() -> None:
    """Compares the operations of the documentation with those of a CPU, whole and split."""
    import numpy as np
    import tensorflow as tf

    from mtf_imaging.engine.meshes.devices import default_devices
    from mtf_imaging.errors import reason
    from tests.engine.eager import EagerProgram
    from tests.operation_rows import ROWS, SHAPE

    image, device = np.random.default_rng(0).standard_normal((2, 4, 6, 4)), default_devices()[:1]
    off = {}
    for row, fn in ROWS.items():

        def values(*layout_and_devices, fn=fn):
            program = EagerProgram(fn, {"x": (SHAPE, "float32")}, *layout_and_devices)
            return [np.asarray(y, np.float64) for y in tf.nest.flatten(program(x=image))]

        try:
            expected = values("", "", "stacked", ["CPU:0"])
            for layout in (("", ""), ("rows:2,cols:2", "height:rows,width:cols")):
                for found, other in zip(values(*layout, "stacked", device), expected, strict=True):
                    far = np.abs(found - other).max() / max(1, np.abs(other).max())
                    off[row] = max(off.get(row, 0), far)
        except (ValueError, tf.errors.OpError) as error:
            print(f"{row}: {reason(error)}")
    print("\n".join(f"{row}: off by {far:.1e}" for row, far in off.items() if not far <= _TOLERANCE))
    worst = max(off, key=off.get)
    print(f"{len(off)} of {len(ROWS)} rows run on {device[0]}; the farthest is '{worst}', off by {off[worst]:.1e}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15, help="time for everything (%(default)s)")
    parser.add_argument("--sizes", type=int, nargs=2, default=(128, 256), help="small and large volumes, in voxels")
    parser.add_argument("--rounds", type=int, default=10, help="timed steps (%(default)s)")
    parser.add_argument("--output_dir", type=Path, default=Path("on_gpu"), help="folder for the results (%(default)s)")
    parser.add_argument("--questions", type=lambda text: text.split(","), help="names of questions; default: all")
    parser.add_argument("--only", choices=("kernels", "operations"), help="asks one question in this process")
    flags = parser.parse_args(argv)
    if flags.only:
        kernels(min(flags.sizes)) if flags.only == "kernels" else operations()
        return 0
    end, folder, answers = time.monotonic() + 60 * flags.minutes, flags.output_dir.absolute(), []
    folder.mkdir(parents=True, exist_ok=True)
    for question in questions(tuple(flags.sizes), flags.rounds, folder):
        left = end - time.monotonic() - _GRACE
        if left < _LEAST or question.name not in (flags.questions or [question.name]):
            continue
        answers.append(ask(question, min(left, question.seconds * max(1, 60 * flags.minutes / BUDGET)), folder))
        write(folder, answers)
        print(f"{question.name}: {answers[-1]['state']}, {answers[-1]['seconds']} s", flush=True)
    print((folder / "on_gpu.md").read_text() if answers else "there was no time for a question")
    return 0


if __name__ == "__main__":
    sys.exit(main())
