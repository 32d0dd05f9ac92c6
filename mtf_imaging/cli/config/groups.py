"""The gin configurables of a job and the settings that they bind. Does not import TensorFlow."""

import shlex

from mtf_imaging.settings.inference import CleanupSettings, FlipSettings, ScaleSettings, WindowSettings
from mtf_imaging.settings.patches import PatchSettings, SlidingWindowSettings
from mtf_imaging.settings.setting import Setting, settings_of
from mtf_imaging.settings.step import BatchSettings, Devices, LayoutSettings, NetworkSettings, SpacingSettings
from mtf_imaging.settings.training import DataSettings, FoldSettings, RunSettings, TrainSettings

SETUP = (LayoutSettings, Devices, BatchSettings, SpacingSettings)
JOB = (NetworkSettings, WindowSettings, SlidingWindowSettings, CleanupSettings, FlipSettings, ScaleSettings)
TRAIN = (RunSettings, FoldSettings, PatchSettings)


def _named(group: str, *classes: type) -> dict[str, str]:
    return {one.name: f"{group}.{one.name}" for cls in classes for one in settings_of(cls)}


SETUP_PARAMETERS = _named("setup", *SETUP)
TRAIN_PARAMETERS = _named("train", *TRAIN)
# {setting: gin parameter}
PARAMETERS = {
    **_named("job", *JOB),
    **SETUP_PARAMETERS,
    **TRAIN_PARAMETERS,
    **{"data": "train.data", "data_set": "train.data", "evaluation": "train.evaluation"},
}


def examples() -> dict[str, str]:
    """Returns {setting: its gin parameter with an example value, quoted for a shell}, for settings without a flag."""
    listed: dict[str, Setting] = {
        one.name: one for cls in (*SETUP, *JOB, *TRAIN, DataSettings, TrainSettings) for one in settings_of(cls)
    }
    return {
        name: f"{PARAMETERS[name]}={shlex.quote(one.example)}"
        for name, one in listed.items()
        if one.example and not one.flag
    }
