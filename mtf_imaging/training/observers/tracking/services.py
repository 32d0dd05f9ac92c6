"""The tracking services by their names in settings, and the packages that they need."""

import importlib.util
from collections.abc import Callable, Sequence

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean
from mtf_imaging.training.observers.tracking.mlflow import Mlflow
from mtf_imaging.training.observers.tracking.service import Service
from mtf_imaging.training.observers.tracking.wandb import Wandb, has_account

# The services by the names of their packages.
SERVICES: dict[str, Callable[[], Service]] = {"mlflow": Mlflow, "wandb": Wandb}


def parse_trackers(trackers: str | Sequence[str]) -> tuple[str, ...]:
    """Parses the names of trackers.

    >>> parse_trackers("mlflow, wandb")
    ('mlflow', 'wandb')

    Args:
      trackers: names separated by commas, or a sequence of names.

    Raises:
      ConfigError: a name is not known.
    """
    names = trackers.split(",") if isinstance(trackers, str) else trackers
    parsed = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    for name in parsed:
        if name not in SERVICES:
            raise ConfigError(
                f"trackers = {name!r} is not known.{did_you_mean(name, [*SERVICES])} Fix: choose from "
                f"{', '.join(SERVICES)}.",
                ["trackers"],
            )
    return parsed


def check_trackers(names: Sequence[str]) -> None:
    """Checks that trackers can be used, without connecting to a server.

    Args:
      names: the names, as returned by `parse_trackers`.

    Raises:
      ConfigError: a package is not installed, or Weights & Biases has no account.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"trackers = {name!r} needs the package {name}, which is not installed. Fix: run pip install "
                f'"mtf-imaging[{name}]".',
                ["trackers"],
            )
    if "wandb" in names and not has_account():
        raise ConfigError(
            "trackers = 'wandb': Weights & Biases has no API key. Fix: run wandb login, set WANDB_API_KEY, or set "
            "WANDB_MODE=offline to store the run in its folder.",
            ["trackers"],
        )
