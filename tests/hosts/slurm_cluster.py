"""A Slurm cluster on the hosts of a network: one slurmd on each host, and slurmctld on the first one.

The daemons are those of the system, with a configuration, a key and folders of their own. All hosts share the disk. The
nodes have as many CPUs as a test asks for, and Slurm binds no task to a CPU.
"""

import contextlib
import functools
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests import waiting
from tests.hosts.network import network

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")
# After cred_expire=5, a job that was queued again may start, in seconds.
CONFIGURATION = """
ClusterName=test
SlurmUser=root
SlurmctldHost={first}
AuthType=auth/munge
AuthInfo=socket={socket},cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,batch_sched_delay=0
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
GresTypes=gpu
NodeName={names} CPUs={cpus} RealMemory=1000000 Gres=gpu:{cpus}
PartitionName=all Nodes=ALL Default=YES
"""
# The folder /sys of a host has no control groups, and no plugin that is used needs them.
CONTROL_GROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


class Cluster:
    """A Slurm cluster that runs.

    Attributes:
      hosts: the nodes. The commands of Slurm run on the first one.
    """

    def __init__(self, hosts, folder, environ):
        self.hosts, self._folder, self._environ = hosts, folder, environ

    def start(self, *words, **options):
        """Starts a command on the first host, with the options of `subprocess.Popen`."""
        return self.hosts[0].start(*words, **{"env": self._environ, **options})

    def run(self, *words, code=0, variables=None):
        """Runs a command on the first host, which must end with an exit code. Returns all its output."""
        with tempfile.TemporaryFile("w+", dir=self._folder) as output:
            environ = self._environ | (variables or {})
            process = self.start(*words, env=environ, stdout=output, stderr=subprocess.STDOUT)

            def read():
                output.seek(0)
                return output.read()

            with waiting.killed_at_end(process):
                actual = waiting.wait_for_end(process, report=read)
            assert actual == code, f"exit code {actual}\n{read()}"
            return read()

    def job(self, number):
        """Returns the fields of a job, such as JobState."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.partition("=")[::2] for word in words)

    def state(self, host):
        """Returns the state of a node, such as "idle" or "down*"."""
        return self.run("sinfo", "--noheader", "--nodes", host.name, "--format", "%t").strip()

    def start_node(self, host):
        """Starts the daemon of a node."""
        self._start(host, "slurmd", "-D", "-N", host.name)

    def start_controller(self):
        """Starts the daemon that schedules the jobs."""
        self._start(self.hosts[0], "slurmctld", "-D", "-i")

    def _start(self, host, program, *words):
        with open(self._folder / f"{program}-{host.name}.log", "a") as log:
            host.start(program, *words, env=self._environ, stdout=log, stderr=log)

    def wait_until_idle(self):
        """Waits until all nodes are idle."""
        logs = [*self._folder.glob("*.log")]
        waiting.wait_until(lambda: all(self.state(host) == "idle" for host in self.hosts), "the nodes", logs=logs)


@contextlib.contextmanager
def slurm_cluster(num=2, cpus=4, **environ):
    """Yields a cluster. Skips the test if it cannot be created.

    Args:
      num: number of nodes, which are called host0, host1 and so on.
      cpus: number of CPUs of each node, as Slurm counts them.
      **environ: environment variables of all commands, in addition to those of this process.
    """
    if reason := why_not():
        pytest.skip(f"this system has no Slurm: {reason}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        folder.chmod(0o755)  # munged demands a socket that everyone can reach
        socket = _start_munged(stack, folder)
        hosts = stack.enter_context(network(num))
        names = ",".join(host.name for host in hosts)
        text = CONFIGURATION.format(first=hosts[0].name, socket=socket, folder=folder, names=names, cpus=cpus)
        (folder / "slurm.conf").write_text(text)
        (folder / "cgroup.conf").write_text(CONTROL_GROUPS)
        _write_gpus(folder, cpus)
        for name in ("state", *(host.name for host in hosts)):
            (folder / name).mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "SLURM_"))}
        cluster = Cluster(hosts, folder, clean | {"SLURM_CONF": str(folder / "slurm.conf")} | environ)
        cluster.start_controller()
        for host in hosts:
            cluster.start_node(host)
        cluster.wait_until_idle()
        yield cluster


@functools.cache
def why_not():
    """Returns why a cluster cannot be created here, or None if it can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    return f"{', '.join(missing)} not installed" if missing else None


def _write_gpus(folder, num):
    """Writes the configuration of GPUs that Slurm counts and assigns to jobs, though no node has one."""
    for index in range(num):
        (folder / f"gpu{index}").touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{num - 1}]\n")


def _start_munged(stack, folder):
    """Starts the daemon that signs the messages of Slurm, until the stack is closed. Returns its socket."""
    key, socket = folder / "munge.key", folder / "munge.socket"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = {"key-file": key, "socket": socket, "pid-file": folder / "munge.pid", "seed-file": folder / "munge.seed"}
    words = [f"--{name}={path}" for name, path in {**files, "log-file": folder / "munge.log"}.items()]
    with open(folder / "munged.log", "w") as log:
        # --force: the folders above may belong to other users.
        process = subprocess.Popen(
            ["munged", "--foreground", "--force", *words], stdout=log, stderr=log, start_new_session=True
        )
    stack.enter_context(waiting.killed_at_end(process))
    waiting.wait_until(socket.is_socket, "munged", [process], [folder / "munged.log"])
    return socket
