"""Segmentation of volumes of any size and orientation by a network with a fixed grid."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.formats.dicom.label_codes import LabelCodes
from mtf_imaging.data.images.cropping import warn_of_cropped_volume
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window
from mtf_imaging.data.reading.channels import Image
from mtf_imaging.data.reading.images import Volume
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.scoring.compact_labels import CompactLabels
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.reading import memory_named
from mtf_imaging.kinds.kind import Planned
from mtf_imaging.kinds.networks import is_alone
from mtf_imaging.kinds.prediction_record import PredictionRecord
from mtf_imaging.kinds.volumes.segment.images import (
    as_source,
    input_region,
    open_case,
    source_statistics,
)
from mtf_imaging.kinds.volumes.segment.labels import SlicedLabels, sliced_labels
from mtf_imaging.kinds.volumes.segment.maps import NO_MAPS, MapChoice, Maps
from mtf_imaging.kinds.volumes.segment.planning import (
    label_segments,
    plan_predictions,
    prediction_files,
    writes_folder,
)
from mtf_imaging.kinds.volumes.segment.submission import how_to_submit
from mtf_imaging.network.network import Slices, as_network

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group

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
    """Segments one volume; each process computes a slice.

    The volume is resampled to the grid of the network, and its intensities are mapped as in training. The probabilities
    are resampled back to the volume's own voxels, and each voxel gets the most probable class. Voxels outside the
    sampled box become background.

    Args:
      source: the volume, as returned by `open_case`. Each process reads the voxels that its slice needs.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network. If it is a `Network`, all processes make the same call.
      window: for LiTS, (low, high) in HU; other descriptions contain the intensity schemes.
      description: the channels of the image, and the labels or regions that the network predicts.

    Returns:
      The labels on the voxels of the volume.

    Raises:
      ShapeError: the network returned an array of the wrong shape.
      DataError: the file is damaged, or the network returned NaN or infinity.
    """
    slices, values = _predicted(source, sampling, predict_probabilities, window, description, description.num_outputs)
    return sliced_labels(slices, values, source.geometry, sampling, source.path, description)


def segment_with_maps(
    source: ImageSource,
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities,
    window: Window = DEFAULT_WINDOW,
    description: Description = LITS,
    maps: MapChoice = NO_MAPS,
) -> tuple[SlicedLabels, Maps | None]:
    """Segments one volume, and also returns the maps to write in addition to its labels.

    Args:
      source, sampling, window, description: the same as in `segment_source`.
      predict_probabilities: the network; with `maps.uncertainty`, it appends the entropy (`with_entropy`).
      maps: the maps to write.

    Returns:
      The labels, and the maps if there are any.
    """
    count, options = description.num_outputs, (predict_probabilities, window, description)
    slices, values = _predicted(source, sampling, *options, count + int(maps.uncertainty))
    first = slices.first_values(count)
    labels = sliced_labels(first, values[..., :count], source.geometry, sampling, source.path, description)
    if not maps.names:
        return labels, None
    return labels, Maps(maps, slices, values, source.geometry, sampling, description)


def _predicted(
    source: ImageSource,
    sampling: AnySampling,
    predict_probabilities: PredictProbabilities,
    window: Window,
    description: Description,
    num_outputs: int,
) -> tuple[Slices, np.ndarray]:
    """Returns the slices of the processes, and the network's result in this process's slice."""
    geometry = source.geometry
    grid = sampling.choose(geometry.shape, geometry.spacing).grid
    slices = as_network(predict_probabilities, len(source.channels), num_outputs).slices(grid)
    *region, channels = slices.inputs[slices.group.index]
    with contextlib.closing(source):
        statistics = _statistics(slices.group, source, description)
        image = input_region(source, sampling, tuple(region), window, description, statistics)
        slices.group.first(source.check)
    return slices, slices.predict_image(image[..., channels])


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
    maps: MapChoice = NO_MAPS,
    label_codes: str | Path | None = None,
) -> list[Path]:
    """Segments one file or all volumes in a folder, each in its own geometry.

    Args:
      input_path: a volume, as a NIfTI, NRRD or MetaImage file, an OME-Zarr folder or a folder of DICOM files, or a
        folder of cases; segmentations are not needed.
      output_path: for one volume, a path whose ending selects a format, or an existing folder; for a folder, a folder
          that receives `segmentation-N.nii.gz` or another format for each `volume-N`.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network; None if all segmentations of `record` are complete.
      window: (low, high) in HU.
      progress: whether to show a progress bar and print how to submit.
      overwrite: whether to replace existing segmentations.
      cleanup: rules that the predicted labels must obey.
      submission: whether to write the test cases of a folder in the format of the LiTS challenge; see
        `submission_names`.
      known: voxel sizes of files whose headers lack them.
      planned: the result of `plan_predictions` for these arguments; None calls `plan_predictions`.
      description: the labels or regions that the network predicts.
      record: the record of complete segmentations and of the cases left to predict; None segments all cases.
      faults: receives the errors of single cases; None raises them after the other cases are done.
      maps: the maps to write in addition to the labels; the network must fit, see `segment_with_maps`.
      label_codes: the file of label codes, for DICOM-SEG; see `read_label_codes`.

    Returns:
      The paths of the segmentations.

    Raises:
      DataError: `plan_predictions` refuses the paths, or a volume cannot be read. Cases whose segmentations cannot be
        written raise this error after the others are done.
      ConfigError: another process is writing to the output folder, or `cleanup` has liver rules for other labels.
    """
    cleanup = cleanup.resolve(description)
    input_path, output_path = Path(input_path), Path(output_path)
    if planned is None:
        options: dict[str, Any] = {"maps": maps, "label_codes": label_codes}
        planned = plan_predictions(input_path, output_path, overwrite, submission, known, description, **options)
    outputs = [output for _, output in planned.pairs]
    if record is None:
        record = PredictionRecord(prediction_files(planned.pairs, input_path, output_path)._replace(folder=None))
    into, own_faults = writes_folder(input_path, output_path), faults is None
    segments = label_segments(planned.pairs, description, label_codes)
    settings = _Settings(sampling, window, cleanup, description, known, maps, segments)
    if faults is None:
        faults = CaseFaults(not is_alone(), planned.faults)
    with writing_to(output_path) if into else contextlib.nullcontext(), record.open():
        for number in tqdm(record.unfinished, desc="predict", unit="case", disable=not progress):
            case, output = planned.pairs[number]
            assert predict_probabilities is not None, "a case is unfinished"
            with faults.collect(case.key, case.volume), record.writing(number):
                into_folder = output_path if into else None
                _segment_file(case, output, into_folder, predict_probabilities, settings, record.provenance)
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
    maps: MapChoice = NO_MAPS,
) -> None:
    """Segments this process's slice of each case, and sends it to process 0, which calls `predict_cases`.

    Args:
      cases: the cases that process 0 segments, in the same order.
      sampling: the voxel grid of the network, or its grids.
      predict_probabilities: the network.
      window: (low, high) in HU.
      known: voxel sizes of files whose headers lack them.
      description: the channels of the images.
      maps: the maps that process 0 writes.
    """
    for case in cases:
        with memory_named(case.volume):
            source = open_case(case, known, description)
            labels, made = segment_with_maps(source, sampling, predict_probabilities, window, description, maps)
            labels.send(source.geometry.plane_order)
            if made is not None:
                made.send()


class _Settings(NamedTuple):
    """The arguments that the segmentations of all cases share; see `predict_cases`."""

    sampling: AnySampling
    window: Window
    cleanup: Cleanup
    description: Description
    known: SpacingTable
    maps: MapChoice
    segments: Mapping[str, LabelCodes] | None


def _segment_file(
    case: Case,
    output: Path,
    into: Path | None,
    predict_probabilities: PredictProbabilities,
    own: _Settings,
    provenance: Provenance | None,
) -> None:
    """Segments and writes one case.

    Args:
      case: the case.
      output: the segmentation to write.
      into: the folder of all segmentations; None for a single one.
      predict_probabilities: the network.
      own: the arguments that all cases share.
      provenance: the provenance to store in the file; None for none.
    """
    source = open_case(case, own.known, own.description)
    warn_of_cropped_volume(case.volume, source.geometry, own.sampling)
    options = predict_probabilities, own.window, own.description, own.maps
    labels, maps = segment_with_maps(source, own.sampling, *options)
    write_segmentation(output, labels, source, own.cleanup, segments=own.segments, provenance=provenance)
    if maps is not None:
        maps.write(own.maps.paths(output, into), provenance)


def write_segmentation(
    output: Path,
    labels: SlicedLabels,
    source: ImageSource,
    cleanup: Cleanup = AS_FOUND,
    keep: bool = False,
    provenance: Provenance | None = None,
    segments: Mapping[str, LabelCodes] | None = None,
) -> CompactLabels | None:
    """Writes the labels of a volume in process 0, while the other processes call `labels.send`.

    Args:
      output: the file to write.
      labels: the labels.
      source: the volume.
      cleanup: rules that the labels must obey before they are written.
      keep: whether to return the labels.
      provenance: the provenance to store in the file; None for none.
      segments: the label codes, for DICOM-SEG.

    Returns:
      The written labels, or None.
    """
    geometry, order = source.geometry, source.geometry.plane_order
    if cleanup == AS_FOUND and not keep:
        write_label_slabs(output, labels.slabs(order), geometry, segments, provenance)
        return None
    final = cleanup(labels.compact(order), geometry.spacing, source.path)
    write_label_slabs(output, (final[slab] for slab in labels.parts(order)), geometry, segments, provenance)
    return final
