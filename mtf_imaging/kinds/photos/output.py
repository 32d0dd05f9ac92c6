"""The files that evaluation and prediction of photos write."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import is_partial
from mtf_imaging.kinds.output import OVERLAYS, PREDICTIONS, check_kept, goes_to_folder
from mtf_imaging.kinds.photos.reading.folders import Photo

_RESULTS = ("metrics.json", "metrics.csv", "report.html")


class Output(NamedTuple):
    """The files of a predicted photo.

    Attributes:
      labels: the label image.
      overlay: the photo with the colors of its classes.
    """

    labels: Path
    overlay: Path


def output_files(photo: Photo, input_path: Path, output_path: Path) -> Output:
    """Returns the files that prediction writes for a photo.

    Args:
      photo: the photo.
      input_path: the photo, or the folder of photos.
      output_path: a PNG file for a photo, or a folder.

    Raises:
      DataError: the output is not of the kind of the input, or would replace the photo.
    """
    if goes_to_folder(input_path, output_path, (".png",), "the segmentation of one photo needs"):
        files = Output(output_path / f"{photo.key}.png", output_path / OVERLAYS / f"{photo.key}.png")
    else:
        files = Output(output_path, output_path.with_name(f"{output_path.stem}_overlay.png"))
    check_kept(photo.image, files, "segmentation")
    return files


def check_results(output_dir: Path, photos: Sequence[Photo], input_dir: str | Path) -> None:
    """Checks that an output folder does not hold results of other photos.

    Raises:
      DataError: it does.
    """
    predictions = output_dir / PREDICTIONS
    ours = {predictions / f"{photo.key}.png" for photo in photos}
    others = sorted(path for path in predictions.rglob("*.*") if path not in ours and not is_partial(path))
    if others:
        raise DataError(
            f"{predictions}: the folder holds {len(others)} prediction(s) for photos that are not evaluated, such as "
            f"{others[0].relative_to(predictions)}; the photos are those of {input_dir}. Fix: write to another folder, "
            "or delete this one."
        )
    existing = [output_dir / name for name in _RESULTS if (output_dir / name).exists()]
    if existing and not any(path.exists() for path in ours):
        raise DataError(
            f"{existing[0]}: the file already exists and belongs to other images, because {predictions} has no "
            "predictions for these photos. Fix: write to another folder, or delete the old results."
        )
