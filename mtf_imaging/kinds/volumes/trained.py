"""What a network for volumes was trained on."""

from pathlib import Path

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.description_fields import from_fields
from mtf_imaging.data.sampling.buckets import AnySampling, parse_any_sampling
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.settings.values import Resolution, Spacing


def description_of_run(model_dir: str | Path) -> Description:
    """Returns the description of the data that a run was trained on, with the intensity schemes of the training.

    Raises:
      DataError: the file of facts is damaged.
    """
    facts = read_facts(model_dir)
    if facts is None or facts.description is None:
        return LITS
    return from_fields(facts.description, str(Path(model_dir) / FACTS))


def sampling_of_run(model_dir: str | Path, resolution: Resolution | None, spacing: Spacing | None) -> AnySampling:
    """Returns the sampling of a trained network's input; a value of None is read from the run.

    Raises:
      ConfigError: the resolution is neither given nor stored in the run.
    """
    facts = read_facts(model_dir)
    if resolution is None:
        if facts is None:
            raise ConfigError(
                "the resolution is not known. Fix: give resolution, or the model_dir of a run that has a run.json.",
                ["resolution"],
            )
        resolution = facts.resolution
    if spacing is None and facts is not None:
        spacing = facts.spacing
    if not isinstance(resolution, str | int):
        resolution = ",".join(f"{name}:{size}" for name, size in zip("xyz", resolution, strict=True))
    return parse_any_sampling(resolution, spacing)
