"""Runs exported models in a process that cannot import this package, mesh_tensorflow, the models or gin."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests import waiting

# Reads requests, one JSON object a line, and answers each with a line: "done", or the error.
PROGRAM = """
import json, os, sys
BLOCKED = {"mtf_imaging", "mesh_tensorflow", "models", "tests", "gin"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
for name in BLOCKED:
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} can be imported")
import numpy as np
import tensorflow as tf
loaded = {}  # the last model by its path
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "program" in request:
            sys.argv = [request["program"], *request["arguments"]]
            names = {"__name__": "__main__", "__file__": sys.argv[0]}
            exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), names)
        else:
            if request["model"] not in loaded:
                loaded = {request["model"]: tf.saved_model.load(request["model"])}
            function = loaded[request["model"]].signatures[request["signature"]]
            with np.load(request["inputs"]) as inputs:
                results = function(**{name: tf.constant(value) for name, value in inputs.items()})
            np.savez(request["outputs"], **{name: value.numpy() for name, value in results.items()})
        answer = "done"
    except SystemExit as stop:
        answer = f"exit status {stop.code}" if stop.code else "done"
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    assert not BLOCKED & {name.partition(".")[0] for name in sys.modules}
    print("ANSWER " + json.dumps(answer), flush=True)
"""


class Isolated:
    """A process that has TensorFlow alone.

    Args:
      folder: a folder for arrays.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-I", "-c", PROGRAM]
        # The variable selects the kernels of TensorFlow, whose results differ in the last bits.
        environ = {"PATH": "", "TF_ENABLE_ONEDNN_OPTS": os.environ["TF_ENABLE_ONEDNN_OPTS"]}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=environ
        )

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        assert waiting.wait_for_end(self._process) == 0

    def call(self, model: Path, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Calls a signature of an exported model.

        Raises:
          RuntimeError: the call failed; with the message of the process.
        """
        paths = {name: str(self._folder / f"{name}.npz") for name in ("inputs", "outputs")}
        np.savez(paths["inputs"], **inputs)
        self._ask({"model": str(model), "signature": signature, **paths})
        with np.load(paths["outputs"]) as outputs:
            return dict(outputs)

    def run(self, program: Path, *arguments: Path) -> None:
        """Runs a Python file with the words of its command line."""
        self._ask({"program": str(program), "arguments": [*map(str, arguments)]})

    def _ask(self, request: dict) -> None:
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                answer = json.loads(line.removeprefix("ANSWER "))
                if answer != "done":
                    raise RuntimeError(answer)
                return
        raise RuntimeError(f"the process ended with code {waiting.wait_for_end(self._process)}")
