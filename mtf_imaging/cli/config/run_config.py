"""The saved configuration of a run: `config.gin` in its folder."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gin

from mtf_imaging.cli.config.gin_config import read_gin_file
from mtf_imaging.cli.config.gin_text import Named, read_gin_text
from mtf_imaging.cli.config.groups import PARAMETERS, SETUP, TRAIN
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.settings.setting import settings_of

_logger = logging.getLogger(__name__)
_TASK = re.compile(r"^(?:mtf_imaging\.)?job\.task = @(\S+)\(\)$", re.MULTILINE)


def check_task(config: str | Path) -> None:
    """Checks that the bound job has the task with which the run was trained.

    Args:
      config: the saved configuration of the run; if it does not exist, nothing is checked.

    Raises:
      ConfigError: the tasks differ, so the checkpoints may belong to another network.
    """
    config = Path(config)
    saved = _TASK.findall(read_gin_file(config)) if config.is_file() else []
    if not saved:
        return
    task = gin.query_parameter("job.task")
    if task != gin.config.ConfigurableReference(saved[-1], True):
        raise ConfigError(
            f"{config.parent}: this run was trained with job.task = @{saved[-1]}(), but job.task is now {task}. Fix: "
            "give another --model_dir or the job of the run; if the network is the same, change job.task in "
            f"{config.name}."
        )


def check_same_network(runs: Sequence[Path]) -> None:
    """Checks that the saved configurations of runs describe the same network and image preprocessing.

    Args:
      runs: the run folders of an ensemble. Runs without a saved configuration are skipped.

    Raises:
      ConfigError: a parameter of `job`, of its task or of the network differs.
    """
    configured = [(run, _network_parameters(run / CONFIG)) for run in runs if (run / CONFIG).is_file()]
    for run, parameters in configured[1:]:
        first, expected = configured[0]
        for name in sorted({*parameters, *expected}):
            own, other = (values.get(name, "its default") for values in (parameters, expected))
            if own != other:
                raise ConfigError(
                    f"{run}: was trained with {name} = {own!r}, but {first} with {other!r}, so they are different "
                    "networks. Fix: average only runs of one network; remove the folders of the others."
                )


def _network_parameters(config: Path) -> dict[str, object]:
    """Returns the parameters of `job` and of everything that it refers to, {"name.parameter": value}."""
    try:
        bound = read_gin_text([config]).bound
    except SyntaxError as error:
        raise ConfigError(f"{config}: not valid gin: {error}. Fix: restore the file that train wrote.") from error
    by_name: dict[str, dict[str, object]] = {}
    for key, value in bound.items():
        name = re.split(r"[/.]", key)[-2]
        by_name.setdefault(name, {})[key.rpartition(".")[2]] = value
    reached, waiting = set(), ["job"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [ref.name for value in by_name.get(name, {}).values() for ref in _references(value)]
    return {f"{name}.{key}": value for name in reached for key, value in by_name.get(name, {}).items()}


def _references(value: object) -> list[Named]:
    if isinstance(value, Named):
        return [value]
    if isinstance(value, dict):
        value = [*value.values()]
    return [ref for one in value for ref in _references(one)] if isinstance(value, list | tuple) else []


def save_config(model_dir: str | Path, setup: JobSetup, facts: Facts, layout: Layout) -> str:
    """Saves the bound and used parameters of a run if they have changed, and logs the changes of the bound ones.

    Args:
      model_dir: the run folder.
      setup: the setup of the job.
      facts: the settings derived from the data.
      layout: the layout of the run.

    Returns:
      The saved text.
    """
    recorded = {
        one.name: getattr(facts, one.name) for cls in (*SETUP, *TRAIN) for one in settings_of(cls) if one.recorded
    }
    decided: dict[str, Any] = {
        PARAMETERS[name]: tuple(value) if isinstance(value, list) else value for name, value in recorded.items()
    }
    if setup.has_auto_layout:  # a resumed run keeps its layout
        decided |= {"setup.mesh_shape": layout.mesh_string, "setup.layout": layout.rules_string}
        decided["setup.sequential"] = ",".join(layout.sequential)
    with gin.unlock_config():
        for name, value in decided.items():
            if value is not None:
                gin.bind_parameter(name, value)
    if setup.has_auto_layout:
        JobSetup()  # the used parameters belong to the last call
    # The bound parameters come last and win: the used parameters lack the settings derived from the data.
    used, bound = gin.operative_config_str(), gin.config_str()
    text = f"# Parameters that the run used, including defaults:\n\n{used}\n# Parameters that were set:\n\n{bound}"
    path = Path(model_dir) / CONFIG
    if path.is_file():
        saved = read_gin_file(path)
        before = set(saved.splitlines())
        changed = [line for line in bound.splitlines() if "=" in line and line not in before]
        if changed:
            _logger.warning("%s: the run resumes with a changed configuration: %s", model_dir, "; ".join(changed))
        # A resumed run reads all parameters from the file, so it would save all of them as set. The file is only
        # replaced if a value differs, so an unchanged configuration keeps its digest.
        if read_gin_text([], [saved]).bound == read_gin_text([], [text]).bound:
            return saved
    write_bytes(path, text.encode())
    return text
