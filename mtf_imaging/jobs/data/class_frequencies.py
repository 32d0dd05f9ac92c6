"""The class frequencies from which a new run starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.class_frequencies import class_frequencies
from mtf_imaging.data.description.description import Description
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.settings.training import FROM_DATA, ClassFrequencies
from mtf_imaging.training.checkpoints.checkpoints import last_checkpoint

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


def resolve_frequencies(
    setting: ClassFrequencies, task: "Task", data: TrainingData, model_dir: str | Path
) -> list[float] | None:
    """Returns the frequency of each output of a task's network.

    Args:
      setting: "data" to count the labels of the data; or the frequencies; or None.
      task: the task.
      data: the training data.
      model_dir: the run folder. A resumed run keeps its initial frequencies.

    Returns:
      A fraction of the labeled voxels or pixels for each output. None if the setting is None; if the task cannot use
      frequencies; or if the data is a custom data set without the method `label_counts`.

    Raises:
      DataError: a record or a label image is damaged.
    """
    if setting is None or not hasattr(task, "with_class_frequencies"):
        return None
    if setting != FROM_DATA:
        return [float(frequency) for frequency in setting]
    if last_checkpoint(model_dir) is not None:
        facts = read_facts(model_dir)
        return facts.class_frequencies if facts else None
    label_counts = getattr(data.data_set, "label_counts", None)
    description: Any = data.description or getattr(task, "description", None)  # a custom data set has no label counts
    if label_counts is None or not hasattr(description, "outputs"):
        return None
    # A derived class may count differently; otherwise, the warnings about labels use the same counts.
    survey = data.label_survey if type(data.data_set) is data.images.data_sets else None
    counts = survey.counts if survey else label_counts(data.data_dir)
    frequencies = class_frequencies(counts, list(description.outputs.values()), description.ignore)
    return None if frequencies is None else list(frequencies)


def labeled_masks(description: object, frequencies: Sequence[float] | None) -> list[str]:
    """Returns the masks with at least one labeled voxel, according to the frequencies.

    Args:
      description: the description of the training data; None for a custom data set.
      frequencies: the frequency of each network output; None if they were not counted.
    """
    if not isinstance(description, Description):
        return []
    if frequencies is None:
        return list(description.masks)
    labels = {
        value
        for values, frequency in zip(description.outputs.values(), frequencies, strict=True)
        for value in values
        if frequency
    }
    return [name for name, values in description.masks.items() if labels & {*values}]
