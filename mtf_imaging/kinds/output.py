"""The files that evaluation and prediction write: their names, their checks, and pictures."""

import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image as Picture

from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.volume_scores.files import RESULTS
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.contained import NameTooLong
from mtf_imaging.files.output_folder import check_outside
from mtf_imaging.files.partial import is_partial
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.predicted import Image, ResultFiles
from mtf_imaging.kinds.prediction_record import has_record

_GAP = 8  # pixels between pictures


_Output = TypeVar("_Output")
PREDICTIONS, PICTURES, OVERLAYS = "predictions", "pictures", "overlays"


def goes_to_folder(input_path: Path, output_path: Path, endings: tuple[str, ...], what: str) -> bool:
    """Returns whether the results of a prediction are files of a folder, not a single file.

    Args:
      input_path: an image, or a folder of images.
      output_path: the file to write, or the folder.
      endings: the endings of the file.
      what: the result of one image with its verb, for the message.

    Raises:
      DataError: the output is not of the kind of the input.
    """
    is_file = output_path.suffix.lower() in endings and not output_path.is_dir()
    if input_path.is_dir() and is_file:
        raise not_a_folder(input_path, output_path)
    if not (input_path.is_dir() or output_path.is_dir() or is_file):
        raise DataError(
            f"{output_path}: {what} a name that ends in {' or '.join(endings)}. "
            "Fix: use such a name, or name an existing folder."
        )
    return not is_file


def not_a_folder(input_path: Path, output_path: Path) -> DataError:
    """Returns the error about a file as the output for a folder."""
    return DataError(
        f"{output_path}: the input {input_path} is a folder, so the output must be a folder, too. Fix: name a folder."
    )


def check_kept(inputs: Iterable[Path], written: Iterable[Path], what: str) -> None:
    """Raises DataError if an input file is one of the files that are written.

    Args:
      inputs: the images, and their labels if there are any.
      written: the files.
      what: what the files are, for the message.
    """
    replaced = {path.resolve() for path in written}
    for path in inputs:
        if path.resolve() in replaced:
            raise DataError(f"{path}: would be overwritten by its {what}. Fix: name another output.")


def plan_outputs(
    images: Iterable[Image], output_of: Callable[[Image], _Output]
) -> tuple[list[Image], list[_Output], dict[str, DataError]]:
    """Returns the images whose predictions can be written, their files, and the errors of the others by key.

    Args:
      images: the images.
      output_of: returns the files of an image.

    Raises:
      DataError: an image has an error that concerns the whole prediction, or no prediction can be written.
    """
    kept: list[Image] = []
    outputs: list[_Output] = []
    faults: dict[str, DataError] = {}
    for image in images:
        try:
            outputs.append(output_of(image))
            kept.append(image)
        except NameTooLong as error:
            faults[image.key] = error
    if not kept:
        CaseFaults(faults=faults).check(faults, "images")
    return kept, outputs, faults


def check_new(files: Iterable[Path], overwrite: bool = False, folder: Path | None = None) -> None:
    """Raises DataError if a file exists, unless existing files may be replaced.

    Args:
      files: the files.
      overwrite: whether they may be replaced.
      folder: the folder of the files if it may hold the record of an earlier prediction, which then decides.
    """
    if overwrite or (folder is not None and has_record(folder)):
        return
    existing = [path for path in files if os.path.lexists(path)]
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise DataError(
            f"{existing[0]}{more}: already exists. Fix: name another output, or set overwrite.", ["overwrite"]
        )


def check_results(
    files: Sequence[ResultFiles], output_dir: Path, inputs: Sequence[Path], input_dir: Path, of: str, pattern: str
) -> None:
    """Checks that an evaluation replaces no input, and that its folder does not hold results of other images.

    Args:
      files: the files to write for each image. The picture is written after the prediction.
      output_dir: the folder to write to.
      inputs: the images and their labels.
      input_dir: their folder.
      of: the images, such as "photos".
      pattern: the names of predictions.

    Raises:
      DataError: a file would be replaced.
    """
    check_kept(inputs, [path for one in files for path in one if path], "results")
    predictions, ours = output_dir / PREDICTIONS, {one.prediction for one in files}
    foreign = sorted(path for path in predictions.glob(pattern) if path not in ours and not is_partial(path))
    if foreign:
        raise DataError(
            f"{predictions}: the folder holds {len(foreign)} prediction(s) for {of} that are not evaluated, or in "
            f"another format, such as {foreign[0].relative_to(predictions)}; the {of} are those of {input_dir}. "
            "Fix: write to another folder, or delete this one."
        )
    others = (*(output_dir / name for name in RESULTS), *(one.picture for one in files if one.picture))
    existing = [path for path in others if path.exists()]
    if existing and not any(path.exists() for path in ours):
        raise DataError(
            f"{existing[0]}: the file already exists and belongs to other {of}, because {predictions} has no "
            f"predictions for these {of}. Fix: write to another folder, or delete the old results."
        )


def check_place(input_path: Path, output_path: Path) -> None:
    """Raises DataError or ConfigError if an output lies in the folder of the images, or in that of a run."""
    if input_path.is_dir():
        check_outside(output_path, input_path)
    check_no_run(output_path if output_path.is_dir() or input_path.is_dir() else output_path.parent)


def is_folder(input_path: Path, output_path: Path) -> bool:
    """Returns whether the results of a prediction of photos, objects or arrays are files of a folder."""
    return input_path.is_dir() or output_path.is_dir()


def subfolders(output_dir: Path, files: Iterable[Path]) -> list[str]:
    """Returns the subfolders of an output folder that contain files, relative to the folder."""
    return sorted({str(path.parent.relative_to(output_dir)) for path in files} - {"."})


def write_picture(path: Path, pixels: np.ndarray) -> None:
    """Writes an RGB picture, uint8 `[height, width, 3]`, atomically as PNG."""
    with atomic_path(path) as temporary:
        Picture.fromarray(pixels).save(temporary, format="PNG")


def jpeg(picture: Picture.Image, quality: int) -> bytes:
    """Returns a picture as JPEG."""
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=quality, optimize=True)
    return data.getvalue()


def side_by_side(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Returns pictures of the same height, uint8 `[height, width, 3]`, with white gaps between them."""
    gap = np.full((len(pictures[0]), _GAP, 3), 255, np.uint8)
    return np.concatenate([pictures[0], *(piece for one in pictures[1:] for piece in (gap, one))], axis=1)


def shown_size(size: tuple[int, ...], max_side: int) -> tuple[int, int]:
    """Returns the height and width of a photo whose sides have at most `max_side` pixels.

    >>> shown_size((1024, 2048), 640), shown_size((375, 500), 640)
    ((320, 640), (375, 500))
    """
    return scaled_size(size, min(1.0, max_side / max(size)))


def scaled_size(size: tuple[int, ...], scale: float) -> tuple[int, int]:
    """Returns the height and width of a photo after scaling by a factor.

    >>> scaled_size((333, 500), 0.5), scaled_size((1, 500), 0.25)
    ((166, 250), (1, 125))
    """
    height, width = (max(1, round(n * scale)) for n in size)
    return height, width
