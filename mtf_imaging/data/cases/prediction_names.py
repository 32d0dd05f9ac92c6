"""The file formats of predicted segmentations of volumes."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.listing.image_formats import DICOM_SEG, FORMATS, OUTPUT_FORMATS
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.spelling import did_you_mean


def check_output_format(output_format: str | None, submission: bool = False) -> None:
    """Checks an output format setting.

    Args:
      output_format: a key of `OUTPUT_FORMATS`, or None for the format of each image.
      submission: whether the segmentations are a submission to the LiTS challenge, which are NIfTI files.

    Raises:
      ConfigError: the format does not exist, or is not allowed for a submission.
    """
    if output_format is not None and output_format not in OUTPUT_FORMATS:
        hint = did_you_mean(str(output_format), OUTPUT_FORMATS)
        what = f"output_format '{output_format}' is unknown.{hint} Fix: use one of {', '.join(OUTPUT_FORMATS)}."
        raise ConfigError(what, ["output_format"])
    if submission and output_format not in (None, "nifti"):
        what = f"output_format '{output_format}': the LiTS challenge takes NIfTI files. Fix: leave output_format out."
        raise ConfigError(what, ["output_format", "submission"])


def check_evaluated(output_format: str | None) -> None:
    """Raises ConfigError if `evaluate` does not write segmentations in an output format."""
    if output_format is not None and OUTPUT_FORMATS.get(output_format) is DICOM_SEG:
        what = f"output_format '{output_format}': evaluate writes no DICOM-SEG, which needs the codes of the labels"
        fix = "evaluate with output_format nifti, and write DICOM-SEG with predict"
        raise ConfigError(f"{what}. Fix: {fix}.", ["output_format"])


def with_output_format(cases: Iterable[Case], output_format: str | None) -> list[Case]:
    """Returns cases whose predictions have the given output format.

    Args:
      cases: the cases.
      output_format: a key of `OUTPUT_FORMATS`, or None for the format of each image, and NIfTI for DICOM.

    Raises:
      ConfigError: the format does not exist.
    """
    check_output_format(output_format)
    if output_format is None:
        return [*cases]
    ending = OUTPUT_FORMATS[output_format].endings[0]
    return [dataclasses.replace(case, prediction_name=_stem(case.prediction_name) + ending) for case in cases]


def check_output_name(path: Path, output_format: str | None) -> None:
    """Checks that the path of a segmentation has the ending of a format.

    Args:
      path: the file or folder to write.
      output_format: a key of `OUTPUT_FORMATS`; None for any of them.

    Raises:
      DataError: it has a different ending.
    """
    formats = [OUTPUT_FORMATS[output_format]] if output_format else [*OUTPUT_FORMATS.values()]
    if any(image_format.stem(path) is not None for image_format in formats):
        return
    *others, last = (ending for each in formats for ending in reversed(each.endings) if ending != ".zarr")
    endings = f"{', '.join(others)} or {last}" if others else last
    stated = f" with output_format '{output_format}'" if output_format else ""
    what = f"the segmentation of one image needs a name that ends in {endings}{stated}"
    fix = "use such a name, or name an existing folder"
    raise DataError(f"{path}: {what}. Fix: {fix}.", ["output_format"] if output_format else [])


def _stem(name: str) -> str:
    return next(stem for image_format in FORMATS if (stem := image_format.stem(Path(name))) is not None)
