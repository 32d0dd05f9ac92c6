"""The saved configuration of a run: `config.gin` in its folder."""

import logging
import re
from pathlib import Path

import gin

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.jobs.run import Facts
from mtf_imaging.layout import Layout

_logger = logging.getLogger(__name__)
_TASK = re.compile(r"^(?:mtf_imaging\.)?job\.task = @(\S+)\(\)$", re.MULTILINE)


def check_task(config: str | Path) -> None:
    """Checks that the bound job has the task that the run was trained with.

    Args:
      config: the saved configuration of the run; without this file, nothing is checked.

    Raises:
      ConfigError: the tasks differ, so the checkpoints may belong to another network.
    """
    config = Path(config)
    saved = _TASK.findall(config.read_text()) if config.is_file() else []
    if not saved:
        return
    task = gin.query_parameter("job.task")
    if task != gin.config.ConfigurableReference(saved[-1], True):
        raise ConfigError(
            f"{config.parent}: this run was trained with job.task = @{saved[-1]}(), but job.task is now {task}. "
            "Fix: give another --model_dir or the job of the run; if both tasks build the same network, write the new "
            f"job.task into {config.name}."
        )


def save_config(model_dir: str | Path, facts: Facts, setup: JobSetup, layout: Layout) -> str:
    """Saves the bound and the used parameters of a run, and warns if they differ from those of the last call.

    Args:
      model_dir: the folder of the run.
      facts: the settings that follow from the data.
      setup: the setup of the job.
      layout: the layout of the run.

    Returns:
      The saved text.
    """
    decided = {"setup.resolution": facts.resolution, "setup.spacing": facts.spacing}
    decided["train.fold_digest"] = facts.fold_digest
    if setup.cluster:  # a run can resume on any hosts
        decided["setup.cluster"] = ""
    if setup.has_auto_layout:  # a run that resumes keeps its layout
        decided |= {"setup.mesh_shape": layout.mesh_string, "setup.layout": layout.rules_string}
    with gin.unlock_config():
        for name, value in decided.items():
            if value is not None:
                gin.bind_parameter(name, value)
    if setup.has_auto_layout:
        JobSetup()  # the used parameters are those of the last call
    # The bound parameters come last and win: the used parameters do not contain the settings from the data.
    used, bound = gin.operative_config_str(), gin.config_str()
    text = f"# Parameters that the run used, including defaults:\n\n{used}\n# Parameters that were set:\n\n{bound}"
    path = Path(model_dir) / CONFIG
    if path.is_file():
        before = set(path.read_text().splitlines())
        changed = [line for line in bound.splitlines() if "=" in line and line not in before]
        if changed:
            _logger.warning("%s: the run resumes with a changed configuration: %s", model_dir, "; ".join(changed))
    write_bytes(path, text.encode())
    return text
