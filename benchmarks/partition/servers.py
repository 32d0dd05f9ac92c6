"""mtf_imaging over servers: a process for each processor, as `mtf-imaging serve` on as many hosts would be."""

import atexit
import re
import subprocess
import sys

from benchmarks.partition.ours import Stacked
from mtf_imaging.meshes import cluster


class Servers(Stacked):
    """This process runs the program; activations and gradients are in the servers, whose memory is what counts."""

    mesh_impl = "placement"

    def _prepare(self):
        serve = [sys.executable, "-m", "mtf_imaging.cli.main", "serve", "--port=0"]
        count = self._contender.processors
        processes = [subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        for process in processes:
            atexit.register(process.kill)  # where this process ends, and is not ended with all it started
        ready = [re.search(r":(\d+) is ready", process.stdout.readline()) for process in processes]
        self._addresses = [f"localhost:{match[1]}" for match in ready]
        cluster.connect(",".join(self._addresses))

    def device_peak(self):
        return None

    def others(self):
        return {address: cluster.peak_memory(number) for number, address in enumerate(self._addresses)}
