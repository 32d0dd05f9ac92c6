"""Says how settings are written on a command line.

Errors speak of keyword arguments (`MtfImagingError.settings`), which are the same in a notebook and here.
"""

from collections.abc import Iterable

from absl import flags

from mtf_imaging.cli.commands.all_commands import COMMANDS, load

# setting -> the flag, where it has another name
FLAGS = {"spacing_table": "spacing_csv"}
# setting without a flag -> the gin parameters that are it, each with an example, quoted for a shell
PARAMETERS = {
    "monitor": ("""train.monitor='"lesion"'""",),
    "checkpoint_every": ("train.checkpoint_every=100",),
    "checkpoints_kept": ("train.checkpoints_kept=3",),
    "data": ("train.data='@NAME()'",),
    "dtype": ("""job.dtype='"bfloat16"'""",),
    "evaluation": ("train.evaluation='@NAME()'",),
    "flips": ("""job.flips='("x", "y")'""",),
    "gather_below": ("UNet3D.gather_below=1", "ResNet.gather_below=1"),
    "largest_liver": ("job.largest_liver=True",),
    "lesions_in_liver": ("job.lesions_in_liver=True",),
    "optimizer": ("train.optimizer='@NAME()'",),
}
# setting -> what says more than its flag or parameter, or is no part of the command
NOTES = {
    "hardware": "--hardware (for instance h200, or a gin file: docs/concepts/layouts.md)",
    "port": "`mtf-imaging serve --port PORT` on its host",
    "task": "job.task in a --gin_file (a run keeps its own in config.gin)",
}


def on_the_command_line(settings: Iterable[str], command: str | None = None) -> str:
    """Says how settings are written on a command line.

    Args:
      settings: names of keyword arguments, as `MtfImagingError` has them.
      command: the command that runs: flags that it does not have, or that have no effect on it, are left out. None for
        any.

    Returns:
      "On the command line: --batch_size, --layout.", or "" if none of the settings can be given there.
    """
    known = _flags_with_effect(command) if command in COMMANDS else None
    ways = [way for setting in settings for way in _ways(setting, known)]
    return f"On the command line: {', '.join(ways)}." if ways else ""


def _ways(setting: str, known: set[str] | None) -> list[str]:
    if setting in NOTES:
        return [NOTES[setting]]
    if setting in PARAMETERS:
        return [f"--gin.{binding}" for binding in PARAMETERS[setting] if _is_configurable(binding.partition(".")[0])]
    flag = FLAGS.get(setting, setting)
    return [f"--{flag}"] if known is None or flag in known else []


def _flags_with_effect(command: str) -> set[str]:
    module, values = load(command), flags.FlagValues()
    module.define_flags(values)
    return {*values} - {*getattr(module, "IDLE", ())}


def _is_configurable(name: str) -> bool:
    """Whether gin knows a name: a command imports what it needs, for instance one network of several."""
    import gin  # late: most command lines need none

    try:
        gin.get_configurable(name)
    except ValueError:
        return False
    return True
