"""What kinds whose images are single files with a height and a width share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.data.sampling.grid import PHOTO_AXES, format_grid
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND
from mtf_imaging.files.output_folder import check_outside
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.all_kinds import reading
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.kind import Description, TrainingImages
from mtf_imaging.kinds.output import check_new, check_place
from mtf_imaging.kinds.predicted import Image, Planned, PredictedImages, Read, Result
from mtf_imaging.settings.values import parse_resolution


class FileTraining(TrainingImages[Description, str | Path]):
    """The images of a data set that are single files.

    Args:
      data_set: the data set.

    Attributes:
      kind: the name of the kind.
    """

    kind: str

    def __init__(self, data_set: Any) -> None:
        self._data_set = data_set
        self.split, self.held_out = data_set.split, data_set.held_out_split

    def description(self, data_dir: str | Path) -> Any:
        return self._data_set.description(Path(data_dir))

    def facts(self, data_dir: str | Path, sizes: tuple[int, ...], description: Any) -> Facts:
        fields = description.to_fields()
        return Facts(self.kind, format_grid(sizes, PHOTO_AXES), description=fields, held_out_split=self.held_out)


class FileImages(PredictedImages[Image, Read, Result]):
    """Images that are single files.

    Args:
      facts: the facts of the run.
      settings: the settings of the job.

    """

    cleanup = AS_FOUND

    def __init__(self, facts: Facts, settings: Inference) -> None:
        self._settings, self._held_out_split = settings, facts.held_out_split
        resolution = facts.resolution if settings.resolution is None else settings.resolution
        height, width = parse_resolution(resolution, len(PHOTO_AXES), PHOTO_AXES)
        self._size = height, width

    def find(self, path: Path) -> list[Image]:
        """Returns the images to segment of a path; they need no labels."""
        raise NotImplementedError

    def labeled(self, folder: Path) -> list[Image]:
        """Returns the labeled images of a folder."""
        raise NotImplementedError

    def check_results(self, output_dir: Path, images: Sequence[Image], input_dir: Path) -> None:
        """Raises DataError if an output folder holds results of other images."""
        raise NotImplementedError

    def plan_files(self, images: Sequence[Image], input_path: Path, output_path: Path) -> Planned[Image]:
        """Returns the images with the files to write, and the errors of those whose files cannot be written."""
        raise NotImplementedError

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[Image]:
        with reading(input_dir, self.kind, "input_dir"):
            images = self.labeled(Path(input_dir))
        check_outside(Path(output_dir), Path(input_dir))
        check_no_run(output_dir)
        self.check_results(Path(output_dir), images, Path(input_dir))
        return images

    def plan_predictions(self, input_path: str | Path, output_path: str | Path, overwrite: bool) -> Planned[Image]:
        input_path, output_path = Path(input_path), Path(output_path)
        with reading(input_path, self.kind, "input"):
            images = self.find(input_path)
        check_place(input_path, output_path)
        planned = self.plan_files(images, input_path, output_path)
        files = self.prediction_files(planned.pairs, input_path, output_path)
        check_new((*files.shared, *(path for image in files.images for path in image.outputs)), overwrite, files.folder)
        return planned
