"""Images with objects as training images."""

from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.description.differences import Difference
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.kinds.file_images import FileTraining
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.description import (
    ObjectDescription,
    category_differences,
    object_description_from_fields,
)
from mtf_imaging.kinds.objects.held_out import BOX_MEASURES, MASK_MEASURES, HeldOutObjects
from mtf_imaging.kinds.objects.reading.annotations import find_object_images
from mtf_imaging.kinds.objects.reading.category_counts import survey_objects

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


class Training(FileTraining):
    """The images of a data set with objects, which are scaled to one size."""

    data_sets = Objects
    kind = "objects"

    def measure(self, description: ObjectDescription) -> str:
        return (MASK_MEASURES if self._data_set.masks else BOX_MEASURES)[0]

    def differences(self, description: ObjectDescription, fields: dict | None, where: str) -> list[Difference]:
        return category_differences(description, object_description_from_fields(fields, where))

    def label_survey(self, folder: str | Path, description: ObjectDescription, is_held_out: bool) -> LabelSurvey:
        split = self.held_out if is_held_out else self.split
        return survey_objects(find_object_images(folder, split, description), description)

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        return self.held_out

    def agreed(self, data_dir: str | Path, eval_dir: str | Path | None) -> list[str]:
        return [repr([image.key for image in find_object_images(eval_dir, self.held_out)])] if eval_dir else []

    def cases(self, data_dir: str | Path) -> dict[str, str | None]:
        return {image.key: None for image in self._data_set.images(data_dir)}

    def evaluation(
        self, data_dir: str | Path, eval_dir: str | Path, description: ObjectDescription, task: "Task", progress: bool
    ) -> HeldOutObjects:
        find_object_images(eval_dir, self.held_out, description)  # checks the categories
        return HeldOutObjects(self._data_set, description, self.held_out, progress=progress)
