"""Segmentation of volumes of any size and orientation by a network with a fixed grid."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.cases.prediction_names import check_output_format, check_output_name, with_output_format
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats.write_labels import write_label_slabs
from mtf_imaging.data.images.cropping import warn_of_cropped_volume
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.intensities import ChannelStatistics
from mtf_imaging.data.listing.image_formats import SEGMENTATION_FORMATS, is_image_folder, is_zarr
from mtf_imaging.data.reading.channels import Image
from mtf_imaging.data.reading.images import Volume
from mtf_imaging.data.records.conversion import case_geometries
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.window import DEFAULT_WINDOW, Window
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.scoring.compact_labels import CompactLabels
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.contained import contained
from mtf_imaging.files.output_folder import check_outside, writing_to
from mtf_imaging.files.reading import memory_named
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.kind import Planned
from mtf_imaging.kinds.networks import is_alone
from mtf_imaging.kinds.output import check_kept, check_new, not_a_folder, plan_outputs
from mtf_imaging.kinds.prediction_record import ImageFiles, PredictionFiles, PredictionRecord
from mtf_imaging.kinds.volumes.segment.images import (
    as_source,
    find_cases_of,
    input_region,
    open_case,
    source_statistics,
)
from mtf_imaging.kinds.volumes.segment.labels import SlicedLabels, sliced_labels
from mtf_imaging.kinds.volumes.segment.submission import how_to_submit, submission_names
from mtf_imaging.kinds.volumes.segment.whole_image import image_slices

if TYPE_CHECKING:
    from mtf_imaging.meshes.group import Group

# image [x, y, z, channels] float32 -> probabilities [x, y, z, classes or regions]
PredictProbabilities = Callable[[np.ndarray], np.ndarray]


def segment_volume(
    volume: Volume | Image,
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities,
    window: Window = DEFAULT_WINDOW,
    cleanup: Cleanup = AS_FOUND,
    description: Description = LITS,
) -> np.ndarray:
    """Segments one volume in memory, in one process; see `segment_source`.

    Args:
      volume: the volume, as returned by `read_case`.
      sampling, predict_probabilities, window, description: the same as in `segment_source`.
      cleanup: rules that the predicted labels must obey.

    Returns:
      Labels, uint8 `[x, y, z]` on the voxels of the volume.
    """
    labels = segment_source(as_source(volume), sampling, predict_probabilities, window, description)
    return cleanup(labels.whole(), volume.geometry.spacing, volume.path)


def segment_source(
    source: ImageSource,
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities,
    window: Window = DEFAULT_WINDOW,
    description: Description = LITS,
) -> SlicedLabels:
    """Segments one volume, of which each process computes a slice.

    The volume is resampled to the grid of the network, and its intensities are mapped as in training. The probabilities
    are resampled back to the volume's own voxels, and each voxel gets the most probable class. Voxels outside the
    sampled box become background.

    Args:
      source: the volume, as returned by `open_case`. Each process reads the voxels that its slice needs.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network. If it is an `ImageNetwork`, all processes make the same call.
      window: (low, high) in HU, for LiTS; other descriptions contain the intensity schemes.
      description: the channels of the image, and the labels or regions that the network predicts.

    Returns:
      The labels on the voxels of the volume.

    Raises:
      ShapeError: the network returned an array of the wrong shape.
      DataError: the file is damaged, or the network returned NaN or infinity.
    """
    geometry = source.geometry
    grid = sampling.choose(geometry.shape, geometry.spacing).grid
    slices = image_slices(predict_probabilities, grid, len(source.channels), description.num_outputs)
    *region, channels = slices.inputs[slices.group.index]
    with contextlib.closing(source):
        statistics = _statistics(slices.group, source, description)
        image = input_region(source, sampling, tuple(region), window, description, statistics)
        slices.group.first(source.check)
    probabilities = slices.predict(image[..., channels])
    del image
    return sliced_labels(slices, probabilities, geometry, sampling, source.path, description)


def _statistics(group: "Group", source: ImageSource, description: Description) -> list[ChannelStatistics]:
    """Returns the distribution of each channel, which process 0 computes."""
    fields = group.first(lambda: [dataclasses.asdict(each) for each in source_statistics(source, description)])
    return [ChannelStatistics(**each) for each in fields]


def predict_cases(
    input_path: str | Path,
    output_path: str | Path,
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities | None,
    window: Window = DEFAULT_WINDOW,
    progress: bool = True,
    overwrite: bool = False,
    cleanup: Cleanup = AS_FOUND,
    submission: bool = False,
    known: SpacingTable = NO_TABLE,
    planned: Planned | None = None,
    description: Description = LITS,
    record: PredictionRecord | None = None,
    faults: CaseFaults | None = None,
) -> list[Path]:
    """Segments one file or all volumes of a folder, each in its own geometry.

    Args:
      input_path: a volume, as a NIfTI file, an OME-Zarr folder or a folder of DICOM files, or a folder of cases;
        segmentations are not needed.
      output_path: for one volume, a .nii, .nii.gz or .ome.zarr path to write or an existing folder; for a folder, a
        folder that receives `segmentation-N.nii.gz` or `segmentation-N.ome.zarr` for each `volume-N`.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network; None if all segmentations of a record are complete.
      window: (low, high) in HU.
      progress: whether to show a progress bar and print how to submit.
      overwrite: whether to replace existing segmentations.
      cleanup: rules that the predicted labels must obey.
      submission: whether to write the test cases of a folder in the format of the LiTS challenge; see
        `submission_names`.
      known: voxel sizes of files whose headers lack them.
      planned: the result of `plan_predictions` for these arguments; None calls `plan_predictions`.
      description: the labels or regions that the network predicts.
      record: what is left to predict, and where complete segmentations are recorded; None segments all cases.
      faults: receives the errors of single cases; None raises them after the other cases are done.

    Returns:
      The paths of the segmentations.

    Raises:
      DataError: `plan_predictions` refuses the paths, or a volume cannot be read. Cases whose segmentations cannot be
        written raise this error after the others are done.
      ConfigError: another process is writing to the output folder, or `cleanup` has rules of livers for other labels.
    """
    cleanup = cleanup.resolve(description)
    input_path, output_path = Path(input_path), Path(output_path)
    if planned is None:
        planned = plan_predictions(input_path, output_path, overwrite, submission, known, description)
    outputs = [output for _, output in planned.pairs]
    if record is None:
        record = PredictionRecord(prediction_files(planned.pairs, input_path, output_path)._replace(folder=None))
    into, own_faults = writes_folder(input_path, output_path), faults is None
    if faults is None:
        faults = CaseFaults(not is_alone(), planned.faults)
    with writing_to(output_path) if into else contextlib.nullcontext(), record.open():
        for number in tqdm(record.unfinished, desc="predict", unit="case", disable=not progress):
            case, output = planned.pairs[number]
            assert predict_probabilities is not None, "a case is unfinished"
            with faults.collect(case.key, case.volume), record.writing(number):
                _segment_file(
                    case, known, output, sampling, predict_probabilities, window, cleanup, description, record.note
                )
    if own_faults:
        faults.check([*planned.faults, *(case.key for case, _ in planned.pairs)])
    if submission and progress and not [*faults]:
        print(how_to_submit(outputs))
    return outputs


def run_network(
    cases: Sequence[Case],
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities,
    window: Window = DEFAULT_WINDOW,
    known: SpacingTable = NO_TABLE,
    description: Description = LITS,
) -> None:
    """Segments the slices of this process of each case, and sends them to process 0, which calls `predict_cases`.

    Args:
      cases: the cases that process 0 segments, in the same order.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network.
      window: (low, high) in HU.
      known: voxel sizes of files whose headers lack them.
      description: the channels of the images.
    """
    for case in cases:
        with memory_named(case.volume):
            source = open_case(case, known, description)
            labels = segment_source(source, sampling, predict_probabilities, window, description)
            labels.send(source.geometry.plane_order)


def plan_predictions(
    input_path: str | Path,
    output_path: str | Path,
    overwrite: bool = False,
    submission: bool = False,
    known: SpacingTable = NO_TABLE,
    description: Description = LITS,
    output_format: str | None = None,
) -> Planned:
    """Finds the volumes to segment and the files to write, and checks both before a network is built.

    Args:
      input_path: a volume or a folder of cases; see `predict_cases`.
      output_path: the file or folder to write to; see `predict_cases`.
      overwrite: whether to replace existing segmentations.
      submission: whether to write a submission to the LiTS challenge.
      known: voxel sizes of files whose headers lack them.
      description: the channels and labels of the network that will segment them.
      output_format: "nifti" or "ome-zarr"; None for the ending of the path to write, or for the format of each volume.

    Returns:
      The cases and the files to write.

    Raises:
      DataError: the input is missing; the header of a volume cannot be read; the output already exists, would
        overwrite the input, or lies in the folder of the cases or of a run; or `submission` is set and the input is
        not a folder of test cases.
      ConfigError: there is no such output format, or a submission cannot have it.
    """
    check_output_format(output_format, submission)
    input_path, output_path = Path(input_path), Path(output_path)
    cases = with_output_format(find_cases_of(input_path, description, need_labels=False), output_format)
    cases, outputs, faults = _outputs(input_path, output_path, cases, submission, output_format)
    check_no_run(outputs[0].parent)
    check_new(outputs, overwrite, output_path if writes_folder(input_path, output_path) else None)
    case_geometries(cases, known, description)
    return Planned(list(zip(cases, outputs, strict=True)), faults)


def _outputs(
    input_path: Path, output_path: Path, cases: list[Case], submission: bool, output_format: str | None
) -> tuple[list[Case], list[Path], dict[str, DataError]]:
    """Returns the cases, the files to write, one per case, and the errors of the other cases."""
    is_folder = _is_folder_of_cases(input_path)
    if input_path.is_dir():
        check_outside(output_path, input_path)
    if is_folder and SEGMENTATION_FORMATS.stem(output_path) is not None and not _is_output_folder(output_path):
        raise not_a_folder(input_path, output_path)
    if submission:
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
        check_output_name(output_path, output_format)
        outputs = [output_path]
    if input_path.is_file():
        check_kept([input_path], outputs, "segmentation")
    return cases, outputs, faults


def prediction_files(pairs: Sequence[tuple[Case, Path]], input_path: Path, output_path: Path) -> PredictionFiles:
    """Returns the files that the segmentation of cases reads and writes.

    Args:
      pairs: the cases and their files, of `plan_predictions`.
      input_path, output_path: the same as in `plan_predictions`.
    """
    images = tuple(ImageFiles(case.channels, (path,)) for case, path in pairs)
    return PredictionFiles(images, folder=output_path if writes_folder(input_path, output_path) else None)


def writes_folder(input_path: Path, output_path: Path) -> bool:
    """Returns whether segmentations are files of a folder, not a single file."""
    return _is_folder_of_cases(input_path) or _is_output_folder(output_path)


def _is_folder_of_cases(path: Path) -> bool:
    return path.is_dir() and not is_image_folder(path)


def _is_output_folder(path: Path) -> bool:
    """Returns whether a path is an existing folder for segmentations, not a segmentation in OME-Zarr."""
    return path.is_dir() and not is_zarr(path)


def _segment_file(case, known, output, sampling, predict_probabilities, window, cleanup, description, note):
    """Segments and writes one case."""
    source = open_case(case, known, description)
    warn_of_cropped_volume(case.volume, source.geometry, sampling)
    labels = segment_source(source, sampling, predict_probabilities, window, description)
    write_segmentation(output, labels, source, cleanup, note=note)


def write_segmentation(
    output: Path,
    labels: SlicedLabels,
    source: ImageSource,
    cleanup: Cleanup = AS_FOUND,
    keep: bool = False,
    note: str = "",
) -> CompactLabels | None:
    """Writes the labels of a volume in process 0, while the other processes call `labels.send`.

    Args:
      output: the file to write.
      labels: the labels.
      source: the volume.
      cleanup: rules that the labels must obey before they are written.
      keep: whether to return the labels.
      note: the description in the header of a NIfTI file, ASCII; "" for that of the volume.

    Returns:
      The written labels, or None.
    """
    geometry, order = source.geometry.with_note(note), source.geometry.plane_order
    if cleanup == AS_FOUND and not keep:
        write_label_slabs(output, labels.slabs(order), geometry)
        return None
    final = cleanup(labels.compact(order), geometry.spacing, source.path)
    write_label_slabs(output, (final[slab] for slab in labels.parts(order)), geometry)
    return final
