"""The experiment trackers of a training run."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import mtf_imaging
from mtf_imaging.engine.layout import Layout
from mtf_imaging.files.run_folder import EVAL
from mtf_imaging.settings.as_text import as_text
from mtf_imaging.settings.patches import PatchSettings
from mtf_imaging.settings.setting import settings_of
from mtf_imaging.settings.step import BatchSettings, NetworkSettings
from mtf_imaging.settings.training import RunSettings, TrainSettings
from mtf_imaging.training.observers.events import StepValues
from mtf_imaging.training.observers.tracking.service import RunInfo
from mtf_imaging.training.observers.tracking.services import SERVICES, parse_trackers
from mtf_imaging.training.observers.tracking.tracker import Tracker


def open_trackers(
    own: TrainSettings, layout: Layout, texts: Mapping[str, str], learning_rate: Callable[[int], float]
) -> list[Tracker]:
    """Returns the trackers of a training run, which connect to their services when the run begins.

    Args:
      own: the training settings.
      layout: the layout.
      texts: the texts about the run, by file name.
      learning_rate: a function that maps the step number to the learning rate.
    """
    folder = Path(own.model_dir)
    name = own.tracking_name or _run_name(folder)
    info = RunInfo(own.tracking_project, name, str(folder), _parameters(own, layout), mtf_imaging.__version__, texts)
    return [
        Tracker(
            SERVICES[tracker](),
            info,
            folder / f"{tracker}.json",
            losses=folder / "losses.csv",
            scores=folder / EVAL / "scores.csv",
            step_values=StepValues(learning_rate, own.batch_size),
            every=own.tracking_every,
            num_steps=own.num_steps,
        )
        for tracker in parse_trackers(own.trackers)
    ]


def _run_name(folder: Path) -> str:
    """Returns the folder name of a run, including the name of its cross-validation.

    >>> _run_name(Path("runs/liver")), _run_name(Path("cv/fold_0"))
    ('liver', 'cv/fold_0')
    """
    folder = folder.resolve() if not folder.name else folder
    return "/".join(folder.parts[-2:]) if folder.name.startswith("fold_") else folder.name


def _parameters(own: TrainSettings, layout: Layout) -> dict[str, str]:
    """Returns the training settings as flat text, such as {"optimizer": "Adam", "optimizer.clip_norm": "1.0"}."""
    listed = [one for cls in (NetworkSettings, BatchSettings, PatchSettings, RunSettings) for one in settings_of(cls)]
    own_settings = {one.name for one in settings_of(RunSettings) if one.name.startswith("track")}
    flat = {"layout": str(layout)}
    for one in listed:
        if one.name not in own_settings:
            value = getattr(own, one.name)
            flat |= _flat(one.name, value)
    if dataclasses.is_dataclass(own.data):
        flat["data_dir"] = str(own.data.data_dir)
    return flat


def _flat(name: str, value: object) -> dict[str, str]:
    """Returns a value as text; an object as the name of its class and its attributes."""
    if value is None or isinstance(value, bool | int | float | str | Path | list | tuple | dict | type):
        return {name: value if isinstance(value, str) else as_text(value)}
    attributes = {key.lstrip("_"): as_text(one) for key, one in getattr(value, "__dict__", {}).items()}
    return {name: type(value).__name__, **{f"{name}.{key}": text for key, text in attributes.items()}}
