"""`mtf-imaging launch`: runs a command or a program as several local processes."""

import math

from absl import flags

from mtf_imaging.cli.runtime.launching.program import resolve_program
from mtf_imaging.cli.runtime.launching.restarts import run_with_restarts
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.setting import Settings, setting, settings


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      num_processes: number of processes.
      restarts: number of times to restart all processes after a failure.
      timeout: seconds after which a process that does not answer counts as lost. Default: MTF_IMAGING_TIMEOUT, or 60.
    """

    num_processes: int = setting(least=1, flag=True)
    restarts: int = setting(default=0, least=0, flag=True)
    timeout: float | None = setting(default=None, unit="s", flag=True)


SUMMARY = "runs a command or your own program as several processes on this host."
EXAMPLE = (
    "mtf-imaging launch --num_processes 4 -- "
    "train --data_dir records --model_dir run --mesh_shape rows:4 --layout x:rows"
)
SETTINGS = (_Flags,)
REST = "command"
NOTES = (
    "COMMAND is a command of mtf-imaging with its flags, a Python file with its arguments, or any other program: "
    "mtf-imaging launch --num_processes 2 --restarts 3 -- my_program.py --my_flag",
    "Each process gets TF_CONFIG with the addresses of all processes, MTF_IMAGING_TIMEOUT and, unless it is set, a new "
    "MTF_IMAGING_SECRET, which makes the processes ignore messages of other programs. Unless they are set, "
    "OMP_NUM_THREADS and TF_NUM_INTRAOP_THREADS divide the CPU cores among the processes. The processes have no "
    "standard input.",
    "Each line of the output of process 2 begins with [2]. The output of process 0 is not changed.",
    "SIGTERM, SIGUSR1, SIGHUP (a lost terminal) and Ctrl-C are passed on to every process. If a process fails, the "
    "others have 10 s to report it. Then they are ended, and launch ends with the exit code of the first process that "
    "failed or was stopped: 128 plus the number of a signal that killed it. A second signal ends the commands of "
    "mtf-imaging at once, and other programs after 10 s.",
    "--restarts does not apply to a wrong command line (exit code 2), to a program that was stopped (75, 130), or "
    "after a signal to launch. If launch is killed, Linux kills the processes.",
)


def run(values: flags.FlagValues) -> None:
    timeout = values.timeout
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise ConfigError(
            f"--timeout={timeout:g}: must be a positive number of seconds. Fix: for instance --timeout=60."
        )
    program = resolve_program(values[REST].value)
    run_with_restarts(program, num=values.num_processes, restarts=values.restarts, timeout=timeout)
