"""The folder of a run: whose it is, and the configuration that ran."""

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import gin

from mtf_imaging.errors import ConfigError
from mtf_imaging.files import lock
from mtf_imaging.files.atomic import is_partial, write_bytes
from mtf_imaging.files.run_folder import CONFIG

_logger = logging.getLogger(__name__)
_TASK = re.compile(r"^(?:mtf_imaging\.)?job\.task = @(\S+)\(\)$", re.MULTILINE)


@contextlib.contextmanager
def held(model_dir: str | Path) -> Iterator[None]:
    """Holds the folder of a run for this process within the block, so that no other trains in it.

    Raises:
      ConfigError: it is no folder of a run, or another process trains in it.
    """
    check(model_dir)
    with lock.held(model_dir, "--model_dir", needed=True):
        yield


def check(model_dir: str | Path) -> None:
    """Checks that a folder is missing, empty, or that of an earlier run.

    Raises:
      ConfigError: it holds something else.
    """
    path = Path(model_dir)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path}: is a file. Fix: give train a folder of its own as --model_dir.")
    others = sorted(p.name for p in path.glob("*") if not is_partial(p) and p.name != lock.NAME)
    if others and CONFIG not in others:
        raise ConfigError(
            f"{path}: holds {others[0]} and no {CONFIG}, so it is not the folder of a run. "
            "Fix: give train a folder of its own as --model_dir."
        )


def check_task(config: str | Path) -> None:
    """Checks that the job that is bound is of the task that made a run.

    Args:
      config: the saved configuration of the run; nothing is checked where there is none.

    Raises:
      ConfigError: it is of another task; a network is not what its checkpoints are of.
    """
    config = Path(config)
    saved = _TASK.findall(config.read_text()) if config.is_file() else []
    if not saved:
        return
    asked = gin.query_parameter("job.task")
    if asked != gin.config.ConfigurableReference(saved[-1], True):
        raise ConfigError(
            f"{config.parent}: was made by job.task = @{saved[-1]}(), asked for is job.task = {asked}. "
            "Fix: another --model_dir, or the job that made it; where both make one network, write the new job.task "
            f"into {config.name}."
        )


def save_config(model_dir: str | Path, resolved: dict) -> str:
    """Saves what gin bound, and what of it was used with the defaults; says what changed since the run before.

    Args:
      model_dir: the folder.
      resolved: {"name.parameter": value} that the data decided.

    Returns:
      What was saved.
    """
    with gin.unlock_config():
        for name, value in resolved.items():
            gin.bind_parameter(name, value)
    # What was bound comes last, for it wins: what was used is from before the data decided.
    used, bound = gin.operative_config_str(), gin.config_str()
    text = f"# All that was used, with the defaults:\n\n{used}\n# What was bound:\n\n{bound}"
    path = Path(model_dir) / CONFIG
    if path.is_file():
        before = set(path.read_text().splitlines())
        changed = [line for line in bound.splitlines() if "=" in line and line not in before]
        if changed:
            _logger.warning("%s: goes on with another configuration than before: %s", model_dir, "; ".join(changed))
    write_bytes(path, text.encode())
    return text
