"""Helpers of tests that start programs as several processes with `mtf-imaging launch`."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests import waiting

ROOT = Path(__file__).parents[2]
GRACE = 4.0  # seconds
# The command line with a shorter grace time.
_PROGRAM = f"""
import sys
from mtf_imaging.cli.main import main
from mtf_imaging.cli.runtime.launching import group
group.GRACE = {GRACE}
sys.exit(main(["launch", *sys.argv[1:]]))
"""
GIN = """
import mtf_imaging.models.unet3d
job.task = @unet3d.LiverTumorSegmentation()
job.dtype = "float64"
LiverTumorSegmentation.network = @UNet3D()
UNet3D.base_filters = 2
UNet3D.depth = 1
UNet3D.convs = 1
UNet3D.dropout_rate = 0.3
setup.batch_size = 2
train.optimizer = @Adam()
train.checkpoint_every = 4
Adam.learning_rate = 0.01
"""


class Launched:
    """A program that runs as several processes, with its output in files.

    Args:
      num: number of processes.
      *words: the program and its arguments, or a command with its flags.
      **flags: flags of launch.
    """

    def __init__(self, num, *words, **flags):
        options = [f"--{name}={value}" for name, value in {"timeout": 300, **flags}.items()]
        command = [sys.executable, "-c", _PROGRAM, "--num_processes", num, *options, "--", *words]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "SLURM_"))}
        environ = clean | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
        self.process = subprocess.Popen(
            [*map(str, command)], env=environ, stdout=self._output, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._output.close()

    def wait(self):
        """Returns the exit code and the output."""
        code = waiting.wait_for_end(self.process, report=self.output)
        return code, self.output()

    def output(self):
        self._output.seek(0)
        return self._output.read()

    def pids(self):
        """Returns {number of a process: its pid} for the processes that run now."""
        found = {}
        with contextlib.suppress(OSError):  # a process has just ended
            pid = self.process.pid
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                environ = dict(
                    part.partition("=")[::2] for part in Path(f"/proc/{child}/environ").read_text().split("\0") if part
                )
                found[json.loads(environ["TF_CONFIG"])["task"]["index"]] = int(child)
        return found


def launch(num, *words, code=0, **flags):
    """Runs a program as several processes, and returns its output."""
    with Launched(num, *words, **flags) as launched:
        actual, output = launched.wait()
    assert actual == code, output
    return output


def train_command(folder, model_dir, steps, *more, mesh="rows:2,cols:2", layout="x:rows,y:cols"):
    """Returns the words of `mtf-imaging train` for records of 8 voxels."""
    (folder / "job.gin").write_text(GIN)
    words = ["train", "--data_dir", folder / "records", "--model_dir", model_dir, "--gin_file", folder / "job.gin"]
    return [*words, "--num_steps", steps, "--mesh_shape", mesh, "--layout", layout, *more]


def wait_for_step(launched, model_dir, step):
    """Waits until a run has logged the loss of a step; the program must not end before."""
    path = model_dir / "losses.csv"
    waiting.wait_until(
        lambda: path.is_file() and len(path.read_text().splitlines()) > step + 1,
        f"step {step} in {path}",
        [launched.process],
        [path],
        report=launched.output,
    )


def losses(model_dir):
    """Returns the rows of losses.csv."""
    return (model_dir / "losses.csv").read_text()


def assert_same_weights(model_dir, other, exact):
    """Compares the last checkpoints of two runs."""
    from tests.jobs.together import weights

    values, others = weights(model_dir), weights(other)
    assert values.keys() == others.keys()
    for name, value in others.items():
        if exact:
            np.testing.assert_array_equal(values[name], value, err_msg=name)
        else:
            np.testing.assert_allclose(values[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
