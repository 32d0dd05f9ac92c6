"""Pods on one machine: the variables and names of docs/kubernetes/train.yaml, and process 1 of the image.

A pod is a command on a host of a `network`, in a PID namespace of its own.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import waiting

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/kubernetes"
DOCKERFILE = ROOT / "Dockerfile"
_NAMESPACE = ("unshare", "--fork", "--pid", "--mount-proc")
_ETC = Path("/etc/netns")  # `ip netns exec` mounts the files of a folder here over those of /etc


def documents(path):
    """Returns the documents of a manifest."""
    return list(yaml.safe_load_all(path.read_text()))


def read_job():
    """Returns {kind: document} of train.yaml."""
    return {document["kind"]: document for document in documents(FOLDER / "train.yaml")}


def entry_point():
    """Returns the words of the entry point of the image."""
    return json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)[1])


def variables(job, index, num):
    """Returns the environment variables of a pod, from the manifest and from Kubernetes.

    Args:
      job: the document of the Job.
      index: the number of the pod.
      num: the number of pods, instead of the number in the manifest.
    """
    (container,) = job["spec"]["template"]["spec"]["containers"]
    own = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    name = f"{job['metadata']['name']}-{index}"
    return {**own, "MTF_IMAGING_PROCESSES": str(num), "JOB_COMPLETION_INDEX": str(index), "HOSTNAME": name}


def write_names(job, hosts):
    """Gives each host the name of a pod, as the service of the manifest does: pod i is on the i-th host."""
    service, name = job["spec"]["template"]["spec"]["subdomain"], job["metadata"]["name"]
    lines = [f"{host.address} {name}-{index}.{service}\n" for index, host in enumerate(hosts)]
    for host in hosts:
        (_ETC / host.namespace / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))


def as_process_1(*words):
    """Returns the words that run a command as process 1 of a PID namespace. Skips the test if there are none."""
    missing = [name for name in ("unshare", words[0]) if not shutil.which(name)]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    done = subprocess.run([*_NAMESPACE, "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this system has no PID namespaces: {done.stderr.strip()}")
    return [*_NAMESPACE, *words]


def find_process_1(process, name):
    """Waits until the program `name` is process 1, and returns its process ID in the namespace of the tests.

    Args:
      process: the `Popen` of the words of `as_process_1`.
      name: the name of the program.
    """

    def find():
        with contextlib.suppress(OSError):  # it is about to start
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                if Path(f"/proc/{child}/cmdline").read_bytes().startswith(f"{name}\0".encode()):
                    return int(child)
        return None

    return waiting.wait_until(find, f"process 1, {name}", [process])


@contextlib.contextmanager
def killed_with_namespace(process):
    """Kills the `Popen` of the words of `as_process_1`, and all processes of its namespace, when the block ends."""
    with waiting.killed_at_end(process):
        try:
            yield process
        finally:
            with contextlib.suppress(OSError):
                for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
