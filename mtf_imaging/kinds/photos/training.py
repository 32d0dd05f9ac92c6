"""Photos as training images."""

from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.description.differences import Difference
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.kinds.file_images import FileTraining
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.description import (
    PhotoDescription,
    check_same_classes,
    photo_description_from_fields,
    photo_differences,
)
from mtf_imaging.kinds.photos.held_out import MEASURES, HeldOutPhotos
from mtf_imaging.kinds.photos.infer import prediction_multiple
from mtf_imaging.kinds.photos.reading.folders import find_photos, photo_description, splits
from mtf_imaging.kinds.photos.reading.label_counts import survey_photos

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


class Training(FileTraining):
    """The photos of a data set."""

    any_size = True
    data_sets = Photos
    kind = "photos"

    def measure(self, description: PhotoDescription) -> str:
        return MEASURES[0]

    def differences(self, description: PhotoDescription, fields: dict | None, where: str) -> list[Difference]:
        return photo_differences(description, photo_description_from_fields(fields, where))

    def label_survey(self, folder: str | Path, description: PhotoDescription, is_held_out: bool) -> LabelSurvey:
        split = self.held_out_split(folder) if is_held_out else self.split
        return survey_photos(find_photos(folder, split), photo_description(folder))

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        return self._data_set.held_out_split if splits(Path(eval_dir)) else None

    def agreed(self, data_dir: str | Path, eval_dir: str | Path | None) -> list[str]:
        if not eval_dir:
            return []
        return [repr([photo.key for photo in find_photos(Path(eval_dir), self.held_out_split(eval_dir))])]

    def cases(self, data_dir: str | Path) -> dict[str, str | None]:
        return {photo.key: None for photo in self._data_set.photos(data_dir)}

    def evaluation(
        self, data_dir: str | Path, eval_dir: str | Path, description: PhotoDescription, task: "Task", progress: bool
    ) -> HeldOutPhotos:
        evaluation = HeldOutPhotos(
            self.held_out_split(eval_dir),
            scaling=description.scaling,
            multiple=prediction_multiple(task),
            progress=progress,
        )
        check_same_classes(eval_dir, evaluation.description(eval_dir), description)
        return evaluation
