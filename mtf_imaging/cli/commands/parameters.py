"""`mtf-imaging parameters`: lists the gin parameters."""

import json
import textwrap

from absl import flags

from mtf_imaging.cli.config.setup_flags import GinSettings
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.setting import Settings, setting, settings
from mtf_imaging.spelling import did_you_mean


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      filter: word to search for; only parameters with all given words in their name or meaning are listed.
      json: whether to print everything as JSON.
    """

    filter: tuple[str, ...] = setting(default=(), flag=True)
    json: bool = setting(default=False, flag=True)


SUMMARY = "lists the gin parameters with their types, defaults and meanings."
EXAMPLE = "mtf-imaging parameters UNet3D"
SETTINGS = (_Flags, GinSettings)
WORDS = "filter"
NOTES = (
    "Set a parameter in a gin file with NAME = VALUE, or on the command line with --gin.NAME=VALUE. In a gin file, "
    "@unet3d.UNet3D() creates a UNet3D with the parameters that are set.",
    "To include the parameters of your own modules, give a --gin_file that imports them.",
)
_WIDTH, _INDENT = 100, " " * 6


def run(values: flags.FlagValues) -> str | None:
    from mtf_imaging.cli.config import gin_config

    files = [gin_config.find_gin_file(name) for name in values.gin_file]
    import_tensorflow()
    from mtf_imaging.cli.config import configurables

    configurables.import_all()
    gin_config.bind(files, values.gin_param, {}, values.import_modules)
    every = configurables.parameters()
    words = [word.lower() for word in values.filter]
    shown = [one for one in every if all(word in f"{one.name} {one.meaning}".lower() for word in words)]
    if not shown:
        names = sorted({part for one in every for part in one.name.split(".")[-2:]})  # of classes and parameters
        hint = "".join(did_you_mean(word, names) for word in values.filter[:1])
        raise ConfigError(
            f"no parameter has '{' '.join(values.filter)}' in its name or meaning.{hint} Fix: try another word, or "
            "give none to list all parameters."
        )
    print(json.dumps([one._asdict() for one in shown], indent=1) if values.json else _text(shown))
    return None if values.json else "mtf-imaging train --help"


def _text(shown) -> str:
    lines = []
    for one in shown:
        default = "required" if one.default is None else f"default: {one.default}"
        value = f", set to {one.value}" if one.value is not None else ""
        lines.append(f"{one.name}: {one.type} ({default}{value})")
        lines += textwrap.wrap(one.meaning, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines)
