"""The contender with several processes: one process per processor, over TensorFlow's collectives.

The worker of the contender is process 0. It starts a worker for each other process and forwards all commands to them.
"""

import atexit
import json
import os
import subprocess
import sys

from benchmarks.partition import tensorflow_setup, worker
from benchmarks.partition.ours import Stacked
from mtf_imaging.cli.runtime.launching.environment import build_environments
from mtf_imaging.engine import meshes
from mtf_imaging.engine.processes.processes import TF_CONFIG

_TIMEOUT = 250.0  # seconds; many processes import TensorFlow at the same time


class Collective(Stacked):
    """The contender with one process per processor; all processes report their memory and graphs."""

    mesh_impl = "collective"

    def _prepare(self):
        self._children = []
        if TF_CONFIG not in os.environ:
            # The same as in `launch`, including each process's share of the cores.
            environments = build_environments(os.environ, self._contender.processors, _TIMEOUT)
            words = [sys.executable, *worker.arguments(self._contender, self._step)]
            for environ in environments[1:]:
                child = subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                atexit.register(child.kill)  # ends the children if this process exits without ending them
                self._children.append(child)
            os.environ.update(environments[0])
            self._send("load")
        tensorflow_setup.prepare()
        meshes.join()

    def build(self):
        self._send("build")
        super().build()
        self.nodes = max([self.nodes, *(answer["nodes"] for answer in self._receive())])
        self._inputs = self._program.cut(**self._inputs)

    def take(self):
        self._send("step")
        loss = float(self._program.call_slices(**self._inputs)["loss"])
        losses = {loss, *(answer["loss"] for answer in self._receive())}
        if len(losses) > 1:
            raise ValueError(f"the losses of the processes differ: {losses}")
        return loss

    def others(self):
        if self._children and self._program is None:  # the answers to "load"
            answers = self._receive()
        else:
            self._send("end")
            answers = self._receive()
        return {f"process {i}": answer["peak"] for i, answer in enumerate(answers, 1)}

    def _send(self, word):
        for child in self._children:
            print(word, file=child.stdin, flush=True)

    def _receive(self):
        return [json.loads(child.stdout.readline()) for child in self._children]
