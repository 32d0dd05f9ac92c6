"""The settings that only some kinds of data take: the rule that refuses them for the others, and how a kind adds some.

A kind declares the settings that it takes. A setting that no kind declares is for all of them.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.inference import EvaluateSettings, ExportSettings, PredictSettings
from mtf_imaging.settings.setting import Settings, settings_of
from mtf_imaging.settings.training import DataSettings, TrainSettings

S = TypeVar("S", bound=Settings)
_JOBS = (TrainSettings, DataSettings, EvaluateSettings, PredictSettings, ExportSettings)


class TakesSettings(Protocol):
    """A kind of data, `kinds.kind.Kind`.

    Attributes:
      title: the data in messages, such as "photos".
      settings: the classes of the settings that the kind takes.
    """

    title: str
    settings: tuple[type[Settings], ...]


def not_taken(kind: TakesSettings, kinds: Iterable[TakesSettings]) -> dict[str, str]:
    """Returns {setting that a kind does not take: the kinds that do, such as "volumes, photos"}.

    Args:
      kind: the kind.
      kinds: all kinds.
    """
    takers: dict[str, list[str]] = {}
    for other in kinds:
        for name in _names(other):
            takers.setdefault(name, []).append(other.title)
    return {name: ", ".join(titles) for name, titles in takers.items() if name not in _names(kind)}


def check_taken(own: Settings, kind: TakesSettings, kinds: Iterable[TakesSettings]) -> None:
    """Checks that a kind takes all settings of a job that differ from their defaults.

    Args:
      own: the settings of the job.
      kind: the kind of its data.
      kinds: all kinds.

    Raises:
      ConfigError: it does not take one of them.
    """
    takers = not_taken(kind, kinds)
    for one in settings_of(type(own)):
        value = getattr(own, one.name)
        if one.name in takers and not one.is_default(value):
            shown = f" = {value!r}" if isinstance(value, bool | int | float | str | list | tuple) else ""
            raise ConfigError(
                f"{one.name}{shown} has no effect on {kind.title}: it is a setting of {takers[one.name]}. Fix: leave "
                "it out.",
                [one.name],
            )


def with_added(owner: type[S], kinds: Iterable[TakesSettings]) -> type[S]:
    """Returns a settings class with the settings that kinds add to it: those of classes that no job has.

    Args:
      owner: the settings of `evaluate` or `predict`.
      kinds: all kinds.
    """
    declared = dict.fromkeys(cls for kind in kinds for cls in kind.settings)
    added = tuple(cls for cls in declared if not any(issubclass(job, cls) for job in _JOBS))
    if not added:
        return owner
    facts: dict[str, Any] = {"bases": (owner, *added), "namespace": {"__doc__": owner.__doc__}}
    return dataclasses.make_dataclass(owner.__name__, [], **facts, frozen=True, kw_only=True)


def _names(kind: TakesSettings) -> set[str]:
    return {one.name for cls in kind.settings for one in settings_of(cls)}
