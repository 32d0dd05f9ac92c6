"""Measures the time from the command `train` to its first step: `python -m benchmarks.start_up`.

The job is the demo job, on synthetic cases of 64^3 voxels under a 4 x 4 layout. The time ends when `losses.csv` has the
first step. Several installations of the package take turns, so other load on the machine affects all of them alike:

    python -m benchmarks.start_up --program old/.venv/bin/mtf-imaging new/.venv/bin/mtf-imaging
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_OWN = Path(sys.executable).parent / "mtf-imaging"
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def _program(word):
    if not Path(word).is_file():
        raise argparse.ArgumentTypeError(f"'{word}' does not exist; give the path of mtf-imaging in an environment")
    return Path(word).absolute()


def _seconds(program, records, model_dir, layout, dtype):
    """Starts a training and returns the seconds until its first step and until its end."""
    words = [program, "train", "--data_dir", records, "--model_dir", model_dir, "--gin_file", "unet3d_demo"]
    words += ["--gin_file", layout, "--gin_param", f'job.dtype="{dtype}"', "--gin.train.num_steps=1"]
    losses = Path(model_dir) / "losses.csv"
    began = time.perf_counter()
    process = subprocess.Popen(list(map(str, words)), **_QUIET)
    while process.poll() is None and not (losses.is_file() and len(losses.read_text().splitlines()) > 1):
        time.sleep(0.01)
    first = time.perf_counter() - began
    if process.wait() != 0:
        raise SystemExit(f"{program} failed; run it without this benchmark to see its message")
    return first, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", nargs="+", type=_program, default=[_OWN], help="programs to compare (%(default)s)")
    parser.add_argument("--layout", default="4x4", help="a file of layouts/ (%(default)s)")
    parser.add_argument("--dtype", default="float64", help="type of the activations (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each program (%(default)s)")
    flags = parser.parse_args()
    seconds = {program: [] for program in flags.program}
    with tempfile.TemporaryDirectory() as folder:
        cases, records = Path(folder) / "cases", Path(folder) / "records"
        first = str(flags.program[0])
        subprocess.run(
            [first, "phantom", "--output_dir", cases, "--num_cases", "4", "--seed", "1"], check=True, **_QUIET
        )
        words = ["convert", "--input_dir", cases, "--output_dir", records, "--resolution", "64"]
        subprocess.run([first, *words], check=True, **_QUIET)
        for _ in range(1 + flags.rounds):  # the first round fills caches
            for program, of_program in seconds.items():
                run = Path(folder) / "run"
                of_program.append(_seconds(program, records, run, flags.layout, flags.dtype))
                shutil.rmtree(run)
    for program, of_program in seconds.items():
        to_step, to_end = (statistics.median(values) for values in zip(*of_program[1:], strict=True))
        print(f"{program}: {to_step:.2f} s to the first step, {to_end:.2f} s to the end (median of {flags.rounds})")


if __name__ == "__main__":
    main()
