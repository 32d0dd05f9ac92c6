"""Joins the processes that run one job together, and checks that they agree and that its settings fit them."""

import contextlib
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.processes.processes import find_processes
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.all_kinds import explained
from mtf_imaging.settings.setting import Settings, agreed
from mtf_imaging.settings.step import Devices

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group
    from mtf_imaging.jobs.data.training_data import TrainingData


def join(devices: Devices) -> "Group":
    """Joins the other processes that run this program, if there are any.

    Call it before any other use of TensorFlow. A second call does nothing.

    Args:
      devices: the settings of the devices.

    Returns:
      The `Group` of this process, which may have no other members.

    Raises:
      ConfigError: the settings contradict the number of processes.
      ClusterError: a process does not start in time.
    """
    from mtf_imaging.engine.meshes import (  # imported here because they import TensorFlow, which takes seconds
        group,
        runtime,
    )

    current = runtime.current()
    processes = current.processes if current else find_processes()
    if processes is None:
        if devices.mesh_impl == "collective":
            raise ConfigError(
                "mesh_impl 'collective' needs several processes, but this process runs alone. Fix: start the program "
                "with a launcher, with srun or with TF_CONFIG, or choose another mesh_impl.",
                ["mesh_impl"],
            )
        return group.current()
    if devices.mesh_impl not in ("auto", "collective"):
        raise ConfigError(
            f"mesh_impl '{devices.mesh_impl}' uses the devices of one process, but this program runs as "
            f"{processes.num} processes. Fix: use mesh_impl 'auto' or 'collective', or start one process.",
            ["mesh_impl"],
        )
    runtime.join(processes, devices.communication)
    return group.current()


@contextlib.contextmanager
def joined(devices: Devices, layout: Layout) -> "Iterator[Group]":
    """Runs programs within the block in all processes that run this program.

    The block ends when all processes have ended it.

    Args:
      devices: the settings of the devices.
      layout: the layout. Its mesh must use every process.

    Yields:
      The `Group` of this process, which may have no other members.

    Raises:
      ConfigError: the mesh would leave a process idle, the processes have different layouts, or `join` finds a
        contradiction.
      ClusterError: a process does not answer.
    """
    group = join(devices)
    if group.num > 1:
        from mtf_imaging.engine.meshes.grid import ShardGrid

        shards = ShardGrid.make([size for _, size in layout.mesh_shape], group.num).num_shards
        if shards < group.num:
            raise ConfigError(
                f"mesh '{layout.mesh_string}' cannot be divided equally among {group.num} processes: its processors, "
                f"{layout.processors}, can be divided among {shards} at most. Fix: choose a mesh_shape whose sizes "
                f"multiply to {group.num} or a multiple of it, or start fewer processes: {shards}.",
                ["mesh_shape"],
            )
        group.agree({"the layout": str(layout)})
    yield group
    group.barrier()


def check_agreement(group: "Group", own: Settings, **more: object) -> None:
    """Checks that all processes run the same code with the same settings.

    Args:
      group: the processes.
      own: the job settings. Settings of single processes are not compared.
      **more: other values that must be the same, by name; they take precedence over settings of the same name.

    Raises:
      ConfigError: the processes disagree. Every process raises the same error.
    """
    if group.num == 1:
        return
    from mtf_imaging.files.provenance.content import content_digest  # imports NumPy

    values = {f"the argument {name}": value for name, value in {**agreed(own), **more}.items()}
    contents = {
        name: content_digest(agreed(value) if isinstance(value, Settings) else value, name)
        for name, value in values.items()
    }
    group.agree({"the code of this package": _package_digest()} | contents)


def check_same_data(group: "Group", data: "TrainingData", first_batch: dict | None) -> None:
    """Checks that all processes read the same training data and held-out cases.

    Args:
      group: the processes.
      data: the training data.
      first_batch: the first batch of a custom data set; None for records, whose manifests are compared.

    Raises:
      ConfigError: the processes disagree. Every process raises the same error.
    """
    if group.num == 1:
        return
    from mtf_imaging.files.provenance.content import content_digest

    texts = [content_digest(first_batch, "the first batch")]
    eval_dir = data.eval_dir if data.evaluation is None else None  # a custom evaluation may read any format
    with explained(eval_dir or data.data_dir, data.kind, "eval_dir", "data"):
        texts += data.images.agreed(data.data_dir, eval_dir)
    group.agree({"the training data": "\n".join(texts)})


def _package_digest() -> str:
    """Returns a digest of the source files of this package and of its models."""
    digest = hashlib.sha256()
    for package in ("mtf_imaging", "mtf_imaging.models"):
        folder = Path(str(files(package)))
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
