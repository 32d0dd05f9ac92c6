"""Photos as images to train on."""

from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.kinds.folders import PHOTOS, check_same_classes, explained
from mtf_imaging.kinds.networks import prediction_multiple
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.held_out import MEASURES, HeldOutPhotos
from mtf_imaging.kinds.photos.reading.folders import find_photos, splits

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task


class PhotoKind:
    """Photos, an `ImageKind`.

    Args:
      data_set: the photos.
    """

    name = PHOTOS
    any_size = True
    measure = MEASURES[0]

    def __init__(self, data_set: Photos) -> None:
        self._data_set = data_set
        self.split, self.held_out = data_set.split, data_set.held_out_split

    def description(self, data_dir: str | Path) -> PhotoDescription:
        with explained(data_dir, PHOTOS, "data_dir", "data"):
            return self._data_set.description(Path(data_dir))

    def held_out_split(self, eval_dir: str | Path) -> str | None:
        with explained(eval_dir, PHOTOS, "eval_dir", "data"):
            return self._data_set.held_out_split if splits(Path(eval_dir)) else None

    def held_out_keys(self, eval_dir: str | Path) -> list[str]:
        return [photo.key for photo in find_photos(Path(eval_dir), self.held_out_split(eval_dir))]

    def evaluation(
        self, eval_dir: str | Path, description: PhotoDescription, task: "Task", progress: bool
    ) -> HeldOutPhotos:
        evaluation = HeldOutPhotos(
            self.held_out_split(eval_dir),
            scaling=description.scaling,
            multiple=prediction_multiple(task),
            progress=progress,
        )
        check_same_classes(eval_dir, evaluation.description(eval_dir), description)
        return evaluation
