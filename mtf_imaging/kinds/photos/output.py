"""The output files for evaluating and predicting photos."""

from pathlib import Path
from typing import NamedTuple

from mtf_imaging.files.contained import contained
from mtf_imaging.kinds.output import OVERLAYS, PICTURES, PREDICTIONS, check_kept, goes_to_folder
from mtf_imaging.kinds.photos.reading.folders import Photo
from mtf_imaging.kinds.predicted import ResultFiles


class Output(NamedTuple):
    """The files of a predicted photo.

    Attributes:
      labels: the label image.
      overlay: the photo with its class colors.
    """

    labels: Path
    overlay: Path


def evaluation_files(photo: Photo, output_dir: Path) -> ResultFiles:
    """Returns the label image and the picture that evaluation writes for a photo.

    Raises:
      DataError: the name of the photo leads out of the folder.
    """
    name = f"{photo.key}.png"
    return ResultFiles(contained(output_dir, PREDICTIONS, name), contained(output_dir, PICTURES, name))


def output_files(photo: Photo, input_path: Path, output_path: Path) -> Output:
    """Returns the files that prediction writes for a photo.

    Args:
      photo: the photo.
      input_path: the photo, or the folder of photos.
      output_path: a PNG file for a photo, or a folder.

    Raises:
      DataError: the output is not of the same kind as the input, or would replace the photo.
    """
    if goes_to_folder(input_path, output_path, (".png",), "the segmentation of one photo needs"):
        name = f"{photo.key}.png"
        files = Output(contained(output_path, name), contained(output_path, OVERLAYS, name))
    else:
        files = Output(output_path, output_path.with_name(f"{output_path.stem}_overlay.png"))
    check_kept([photo.image], files, "segmentation")
    return files
