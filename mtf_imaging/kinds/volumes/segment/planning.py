"""Finds the volumes to segment and the files to write, before a network is built."""

from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.cases.prediction_names import check_output_format, check_output_name, with_output_format
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.all_formats import check_writable
from mtf_imaging.data.formats.dicom.label_codes import LabelCodes, codes_of_labels, read_label_codes
from mtf_imaging.data.listing.image_formats import SEGMENTATION_FORMATS, is_dicom_seg, is_image_folder, is_zarr
from mtf_imaging.data.records.conversion import case_geometries
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.contained import contained
from mtf_imaging.files.output_folder import check_outside
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.output import check_kept, check_new, not_a_folder, plan_outputs
from mtf_imaging.kinds.predicted import Planned
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles
from mtf_imaging.kinds.volumes.segment.images import find_cases_of
from mtf_imaging.kinds.volumes.segment.maps import MapChoice
from mtf_imaging.kinds.volumes.segment.submission import submission_names


def map_choice(own: Inference) -> MapChoice:
    """Returns the maps that a job writes."""
    return MapChoice(own.probabilities, own.uncertainty, several=own.ensemble or bool(own.flips))


def plan_predictions(
    input_path: Path, output_path: Path, overwrite: bool, own: Inference, description: Description
) -> Planned[Case]:
    """Finds the volumes to segment and the files to write, and checks both before a network is built.

    Args:
      input_path: a volume, as a NIfTI, NRRD or MetaImage file, an OME-Zarr folder or a folder of DICOM files, or a
        folder of cases; segmentations are not needed.
      output_path: for one volume, a path whose ending selects a format, or an existing folder; for a folder, a folder
        that receives `segmentation-N.nii.gz` or another format for each `volume-N`.
      overwrite: whether to replace existing segmentations.
      own: the settings of the job.
      description: the channels and labels of the network.

    Raises:
      DataError: the input is missing; the header of a volume cannot be read; the output already exists, would overwrite
        the input, or is in the folder of the cases or of a run; or `submission` is set and the input is not a folder of
        test cases; or a volume is not a DICOM series, as DICOM-SEG needs.
      ConfigError: there is no such output format, or a submission cannot have it; or a label has no codes for
        DICOM-SEG.
    """
    check_output_format(own.output_format, own.submission)
    cases = with_output_format(find_cases_of(input_path, description, need_labels=False), own.output_format)
    cases, outputs, faults = _outputs(input_path, output_path, cases, own)
    check_no_run(outputs[0].parent)
    pairs = list(zip(cases, outputs, strict=True))
    files = prediction_files(pairs, input_path, output_path, map_choice(own))
    written = [path for image in files.images for path in image.outputs]
    if input_path.is_file():
        check_kept([input_path], outputs, "segmentation")
        check_kept([input_path], written, "maps")
    check_new(written, overwrite, files.folder)
    label_segments(outputs, description, own.label_codes)
    case_geometries(cases, own.spacing_table, description)
    for case, output in pairs:
        check_writable(output, case.volume)
    return Planned(pairs, faults)


def label_segments(
    outputs: Sequence[Path], description: Description, label_codes: str | Path | None
) -> dict[str, LabelCodes] | None:
    """Returns the codes of the labels if segmentations are written as DICOM-SEG, otherwise None.

    Args:
      outputs: the files.
      description: the labels.
      label_codes: the file of label codes; see `read_label_codes`.

    Raises:
      ConfigError: a label has no codes, or there is a file of label codes but no DICOM-SEG.
    """
    if not any(map(is_dicom_seg, outputs)):
        if label_codes is not None:
            raise ConfigError(
                f"label_codes = '{label_codes}' has no effect: no segmentation is written as DICOM-SEG. Fix: give "
                "output_format dicom-seg, or leave label_codes out.",
                ["label_codes", "output_format"],
            )
        return None
    stated = None if label_codes is None else read_label_codes(label_codes, description.labels)
    return codes_of_labels(description.labels, stated)


def _outputs(
    input_path: Path, output_path: Path, cases: list[Case], own: Inference
) -> tuple[list[Case], list[Path], dict[str, DataError]]:
    """Returns the cases, the files to write, one per case, and the errors of the other cases."""
    is_folder = _is_folder_of_cases(input_path)
    if input_path.is_dir():
        check_outside(output_path, input_path)
    is_file_name = SEGMENTATION_FORMATS.stem(output_path) is not None or is_dicom_seg(output_path)
    if is_folder and is_file_name and not _is_output_folder(output_path):
        raise not_a_folder(input_path, output_path)
    if own.submission:
        if not is_folder:
            raise DataError(
                f"{input_path}: is one image; a submission needs the folder of the test-volume-N.nii files. "
                "Fix: name this folder."
            )
        names = submission_names(input_path, (case.volume for case in cases))
        return cases, [contained(output_path, name) for name in names], {}
    faults: dict[str, DataError] = {}
    if is_folder or _is_output_folder(output_path):
        cases, outputs, faults = plan_outputs(cases, lambda case: contained(output_path, case.prediction_name))
    else:
        check_output_name(output_path, own.output_format)
        outputs = [output_path]
    return cases, outputs, faults


def prediction_files(
    pairs: Sequence[tuple[Case, Path]], input_path: Path, output_path: Path, maps: MapChoice
) -> PredictionFiles:
    """Returns the files that the segmentation of cases reads and writes.

    Args:
      pairs: the cases and their files, from `plan_predictions`.
      input_path, output_path: the same as in `plan_predictions`.
      maps: the maps to write in addition to the labels.
    """
    into = output_path if writes_folder(input_path, output_path) else None
    images = tuple(ImageFiles(case.channels, (path, *maps.paths(path, into))) for case, path in pairs)
    return PredictionFiles(images, folder=into)


def writes_folder(input_path: Path, output_path: Path) -> bool:
    """Returns whether segmentations are files in a folder instead of a single file."""
    return _is_folder_of_cases(input_path) or _is_output_folder(output_path)


def _is_folder_of_cases(path: Path) -> bool:
    return path.is_dir() and not is_image_folder(path)


def _is_output_folder(path: Path) -> bool:
    """Returns whether a path is an existing folder for segmentations, and not an OME-Zarr segmentation."""
    return path.is_dir() and not is_zarr(path)
