"""The configuration of a run, `config.gin` in its folder."""

import logging
import re
from pathlib import Path

import gin

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.jobs.run import Facts

_logger = logging.getLogger(__name__)
_TASK = re.compile(r"^(?:mtf_imaging\.)?job\.task = @(\S+)\(\)$", re.MULTILINE)


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


def save_config(model_dir: str | Path, facts: Facts, setup: JobSetup) -> str:
    """Saves what gin bound, and what of it was used with the defaults; warns of what changed since the run before.

    Args:
      model_dir: the folder.
      facts: what the data decided.
      setup: the setup of the job.

    Returns:
      What was saved.
    """
    decided = {"setup.resolution": facts.resolution, "setup.spacing": facts.spacing}
    decided["train.fold_digest"] = facts.fold_digest
    if setup.cluster:  # where a run computed is no part of what it was: it goes on anywhere
        decided["setup.cluster"] = ""
    with gin.unlock_config():
        for name, value in decided.items():
            if value is not None:
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
