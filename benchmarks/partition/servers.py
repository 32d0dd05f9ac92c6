"""The contender on servers: one local `mtf-imaging serve` process per processor, as on several hosts."""

import atexit
import re
import subprocess
import sys

from benchmarks.partition.ours import Stacked
from mtf_imaging.meshes import cluster


class Servers(Stacked):
    """The contender with activations and gradients on servers; it reports the servers' memory."""

    mesh_impl = "placement"

    def _prepare(self):
        serve = [sys.executable, "-m", "mtf_imaging.cli.main", "serve", "--port=0"]
        count = self._contender.processors
        processes = [subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        for process in processes:
            atexit.register(process.kill)  # ends the servers if this process exits without ending its children
        ready = [re.search(r":(\d+) is ready", process.stdout.readline()) for process in processes]
        self._addresses = [f"localhost:{match[1]}" for match in ready]
        cluster.connect(",".join(self._addresses))

    def device_peak(self):
        return None

    def others(self):
        return {address: cluster.peak_memory(number) for number, address in enumerate(self._addresses)}
