"""Images with objects as images to train on."""

from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.kinds.folders import OBJECTS, explained
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.held_out import BOX_MEASURES, MASK_MEASURES, HeldOutObjects
from mtf_imaging.kinds.objects.reading.annotations import find_object_images

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


class ObjectKind:
    """Images with objects, an `ImageKind`.

    Args:
      data_set: the images.
    """

    name = OBJECTS
    any_size = False  # images are scaled to the size of the training images

    def __init__(self, data_set: Objects) -> None:
        self._data_set = data_set
        self.split, self.held_out = data_set.split, data_set.held_out_split
        self.measure = (MASK_MEASURES if data_set.masks else BOX_MEASURES)[0]

    def description(self, data_dir: str | Path) -> ObjectDescription:
        with explained(data_dir, OBJECTS, "data_dir", "data"):
            return self._data_set.description(Path(data_dir))

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        return self._data_set.held_out_split

    def held_out_keys(self, eval_dir: str | Path) -> list[str]:
        with explained(eval_dir, OBJECTS, "eval_dir", "data"):
            return [image.key for image in find_object_images(Path(eval_dir), self.held_out_split(eval_dir))]

    def evaluation(
        self, eval_dir: str | Path, description: ObjectDescription, task: "Task", progress: bool
    ) -> HeldOutObjects:
        with explained(eval_dir, OBJECTS, "eval_dir", "data"):
            find_object_images(Path(eval_dir), self.held_out_split(eval_dir), description)
        return HeldOutObjects(self._data_set, description, self.held_out_split(eval_dir), progress=progress)
