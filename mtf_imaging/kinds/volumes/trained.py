"""The training data and settings of a network for volumes."""

import dataclasses
import re
from pathlib import Path

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.description_fields import from_fields
from mtf_imaging.data.sampling.buckets import AnySampling, parse_any_sampling
from mtf_imaging.data.sampling.own_size import OwnSize
from mtf_imaging.data.sampling.sampling import BOX_MULTIPLE, parse_spacing
from mtf_imaging.errors import ConfigError, DataError, LayoutError
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.inference.windows import STEP, SlidingWindow
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.settings.patches import WHOLE, SlidingWindowSettings
from mtf_imaging.settings.values import Resolution, Spacing, parse_resolution

_OWN_SIZE = re.compile(r"any(:(?P<multiple>[1-9]\d{0,3}))?")


def description_of_run(model_dir: str | Path) -> Description:
    """Returns the description of the data that a run was trained on, with the intensity schemes of the training data.

    Raises:
      DataError: the facts file is damaged.
    """
    return description_of_facts(read_facts(model_dir), model_dir)


def description_of_facts(facts: Facts | None, model_dir: str | Path) -> Description:
    """Returns the description in the facts of a run; see `description_of_run`."""
    if facts is None or facts.description is None:
        return LITS
    description = from_fields(facts.description, str(Path(model_dir) / FACTS))
    return dataclasses.replace(description, has_logits=facts.resampling is not None)


def sampling_of_facts(facts: Facts | None, resolution: Resolution | None, spacing: Spacing | None) -> AnySampling:
    """Returns the sampling of a trained network's input; a value of None is that of the facts of the run.

    Raises:
      ConfigError: the resolution is neither given nor stored in the run.
    """
    if resolution is None:
        if facts is None:
            raise ConfigError(
                "the resolution is not known. Fix: give resolution, or the model_dir of a run that has a run.json.",
                ["resolution"],
            )
        resolution = facts.resolution
    if spacing is None and facts is not None:
        spacing = facts.spacing
    if isinstance(resolution, str) and (size := _OWN_SIZE.fullmatch(resolution)):
        sampling = OwnSize(parse_spacing(spacing, may_keep=True), int(size["multiple"] or BOX_MULTIPLE))
        if facts is None or facts.resampling is None:
            return sampling
        return dataclasses.replace(sampling, follows_nnunet=True, reversed_axes=facts.reversed_axes)
    if not isinstance(resolution, str | int):
        resolution = ",".join(f"{name}:{size}" for name, size in zip("xyz", resolution, strict=True))
    return parse_any_sampling(resolution, spacing)


def window_of_run(patch: Resolution | None, own: SlidingWindowSettings) -> SlidingWindow | None:
    """Returns the window that slides over volumes; None if the network computes a whole volume at once.

    Args:
      patch: the patch size in training, which is the default window; None for whole volumes.
      own: the settings of the job.

    Raises:
      ConfigError: a setting is invalid, or there is a step but no window.
    """
    step = own.window_step
    given = patch if own.sliding_window is None else own.sliding_window
    if given is None or given == WHOLE:
        if step != STEP:
            raise ConfigError(
                f"window_step = {step!r} has no effect: the network computes a whole volume at once. Fix: give "
                "sliding_window, or leave window_step out.",
                ["window_step", "sliding_window"],
            )
        return None
    return SlidingWindow(_window_size(given), step)


def _window_size(given: Resolution) -> tuple[int, ...]:
    """Returns the voxels of a window along x, y and z."""
    try:
        numbers = [given] if isinstance(given, int) else given
        is_valid = isinstance(given, str) or all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
        size = parse_resolution(given) if is_valid and not (isinstance(given, str) and "|" in given) else ()
    except (DataError, LayoutError):
        size = ()
    if len(size) != 3 or min(size) < 1:
        raise ConfigError(
            f"sliding_window = {given!r}: is not the size of a window. Fix: give the voxels along x, y and z, for "
            f"instance 64 or x:64,y:64,z:32, or {WHOLE} to compute a whole volume at once.",
            ["sliding_window"],
        )
    return size
