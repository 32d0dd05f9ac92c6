"""Progress within one image, if it takes long."""

from typing import Any

from tqdm import tqdm

_SECONDS = 10  # until the bar appears


def passed(steps: Any, name: str, unit: str, progress: bool, total: int | None = None) -> tqdm:
    """Returns a progress bar on stderr, which appears if the work takes more than a few seconds.

    Args:
      steps: what to iterate over; None if the caller updates the bar.
      name: the label of the bar.
      unit: the name of one step.
      progress: whether to show the bar.
      total: number of steps, if it is not the length of `steps`.
    """
    options = {"leave": False, "disable": not progress, "delay": _SECONDS, "dynamic_ncols": True}
    return tqdm(steps, desc=name, unit=unit, total=total, **options)
