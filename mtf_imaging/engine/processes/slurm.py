"""The tasks of a Slurm step: their addresses, from the variables that srun sets. Pure Python."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.errors import ConfigError

_TASK, _NUM_TASKS, _NUM_TASKS_OF_JOB = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"
_STEP, _JOB = "SLURM_STEP_ID", "SLURM_JOB_ID"
_NODES, _TASKS_PER_NODE = "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"
_NODE, _LOCAL_TASK, _NODE_NAME = "SLURM_NODEID", "SLURM_LOCALID", "SLURMD_NODENAME"

# A node name with ranges in brackets, such as "rack[1-2]gpu[01-03,7]"; "," separates names.
_ITEM = r"(?:[^\s,\[\]]|\[[0-9,-]+\])+"
_NODE_LIST = re.compile(rf"{_ITEM}(?:,{_ITEM})*")
_RANGE = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")
_REPEATED = re.compile(r"(?P<tasks>[0-9]+)(?:\(x(?P<nodes>[0-9]+)\))?")

# Linux chooses the ports of outgoing connections from 32768 on, so the ports of the tasks are lower.
_LOWEST_PORT, _PORTS_EACH, _NUM_BASES = 10000, 64, 320
_PRIME = 17  # the steps of one job and the next jobs get different ports

_BLOCK = "srun --distribution=block"


class Step(NamedTuple):
    """The tasks of a step."""

    addresses: tuple[Address, ...]
    task: int  # the number of this task


def find_step(environ: Mapping[str, str]) -> Step | None:
    """Returns the step that this process belongs to, or None outside a step or in a step with one task.

    The shell of a batch script has SLURM_PROCID=0 and the job's SLURM_NTASKS, but belongs to no step. Only srun
    sets the variables of a step.

    Raises:
      ConfigError: a variable is missing or malformed, or srun does not place the tasks in blocks, in the order of the
        node list.
    """
    name = _NUM_TASKS if _NUM_TASKS in environ else _NUM_TASKS_OF_JOB
    if _TASK not in environ or name not in environ or (name == _NUM_TASKS_OF_JOB and _STEP not in environ):
        return None
    num_tasks = _integer(environ, name)
    if num_tasks == 1:
        return None
    task = _integer(environ, _TASK)
    hosts = expand_nodes(_text(environ, _NODES, "gpu[01-03,7],login1"))
    counts = expand_counts(_text(environ, _TASKS_PER_NODE, "2(x3),1"))
    if len(counts) != len(hosts) or sum(counts) != num_tasks or task >= num_tasks:
        raise ConfigError(
            f"Slurm reports {num_tasks} tasks ({name}) and task {task} ({_TASK}), but {sum(counts)} tasks on "
            f"{len(counts)} nodes ({_TASKS_PER_NODE}={environ[_TASKS_PER_NODE]}) and {len(hosts)} nodes "
            f"({_NODES}={environ[_NODES]}). Fix: start all tasks with one srun, without variables of another step."
        )
    positions = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    _check_position(environ, task, positions[task])
    _check_node(environ, task, hosts[positions[task][0]])
    base = _base_port(environ)
    return Step(tuple(Address(hosts[node], base + local) for node, local in positions), task)


def expand_nodes(string: str) -> list[str]:
    """Expands a Slurm hostlist to node names.

    >>> expand_nodes("gpu[01-03,7],login1")
    ['gpu01', 'gpu02', 'gpu03', 'gpu7', 'login1']

    Raises:
      ConfigError: the hostlist is malformed.
    """
    if not _NODE_LIST.fullmatch(string):
        raise _malformed_nodes(string)
    return [name for item in re.findall(_ITEM, string) for name in _expand_item(item, string)]


def _expand_item(item: str, string: str) -> Iterator[str]:
    parts = re.split(r"\[([^\]]*)\]", item)  # text and ranges alternate
    choices = [list(_expand_ranges(part, string)) if number % 2 else [part] for number, part in enumerate(parts)]
    return ("".join(words) for words in itertools.product(*choices))


def _expand_ranges(ranges: str, string: str) -> Iterator[str]:
    for word in ranges.split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            raise _malformed_nodes(string)
        first, last = match["first"], match["last"] or match["first"]
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def _malformed_nodes(string: str) -> ConfigError:
    return ConfigError(f"{_NODES}={string}: is not a list of nodes such as gpu[01-03,7],login1.")


def expand_counts(string: str) -> list[int]:
    """Returns the number of tasks on each node.

    >>> expand_counts("2(x3),1")
    [2, 2, 2, 1]

    Raises:
      ConfigError: the string is malformed.
    """
    counts: list[int] = []
    for word in string.split(","):
        match = _REPEATED.fullmatch(word.strip())
        if match is None:
            raise ConfigError(f"{_TASKS_PER_NODE}={string}: is not a list of task counts such as 2(x3),1.")
        counts += [int(match["tasks"])] * int(match["nodes"] or 1)
    return counts


def _check_position(environ: Mapping[str, str], task: int, position: tuple[int, int]) -> None:
    """Raises ConfigError if the node or the local number of this task shows that tasks are not placed in blocks."""
    names = (_NODE, _LOCAL_TASK)
    actual = tuple(_integer(environ, name) if name in environ else at for name, at in zip(names, position, strict=True))
    if actual != position:
        raise ConfigError(
            f"task {task} ({_TASK}) is number {actual[1]} on node {actual[0]} ({_LOCAL_TASK}, {_NODE}), but with "
            f"{_TASKS_PER_NODE}={environ[_TASKS_PER_NODE]} it should be number {position[1]} on node {position[0]}. "
            f"Tasks must be placed in blocks. Fix: start them with `{_BLOCK}`."
        )


def _check_node(environ: Mapping[str, str], task: int, host: str) -> None:
    """Raises ConfigError if this task does not run on the node that the node list states.

    Slurm sorts the node list, but numbers the nodes of a heterogeneous job by component.
    """
    actual = environ.get(_NODE_NAME, host)
    if actual != host:
        raise ConfigError(
            f"task {task} ({_TASK}) runs on node {actual} ({_NODE_NAME}), but with {_NODES}={environ[_NODES]} and "
            f"{_TASKS_PER_NODE}={environ[_TASKS_PER_NODE]} it should run on node {host}. Fix: start all tasks with "
            f"`{_BLOCK}`, as one component of the job."
        )


def _base_port(environ: Mapping[str, str]) -> int:
    """Returns the port of the first task on each node. Jobs that share a node get different ports, as far as possible.

    The tasks cannot negotiate a free port, because they do not know each other's addresses yet.
    """
    step = environ.get(_STEP, "")
    key = _integer(environ, _JOB) + _PRIME * (int(step) if step.isdecimal() else 0)
    return _LOWEST_PORT + _PORTS_EACH * (key % _NUM_BASES)


def _text(environ: Mapping[str, str], name: str, example: str) -> str:
    if not environ.get(name, "").strip():
        raise ConfigError(
            f"{name} is not set, but {_TASK} is. Fix: start the processes with srun, which sets it, for instance to "
            f"{example}; or set TF_CONFIG."
        )
    return environ[name].strip()


def _integer(environ: Mapping[str, str], name: str) -> int:
    text = _text(environ, name, "4")
    if not text.isdecimal():
        raise ConfigError(f"{name}={text}: is not a non-negative integer such as 4.")
    return int(text)
