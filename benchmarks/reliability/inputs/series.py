"""DICOM series with faulty headers, planes and pixels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.reliability.files import dicom
from benchmarks.reliability.files.dicom import bytes_of, elements, file_of, positions
from benchmarks.reliability.files.nifti import SHAPE, SPACING
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import REFUSED, BadInput, Outcome, Refused, Right, Warned, damaged
from benchmarks.reliability.inputs.lines import CONVERT, EVALUATE, PREDICT, on

_SERIES = "dicom/volume-0"
_LINES = {
    "convert": on(CONVERT, "dicom"),
    "predict": on(PREDICT, _SERIES) + ".nii.gz",
    "evaluate": on(EVALUATE, "dicom"),
}


def _tilt(plane: int) -> tuple[float, float, float]:
    x, y, z = dicom.position(plane)
    return x, y + np.tan(np.radians(15)) * SPACING[2] * plane, z


def _uneven(plane: int) -> tuple[float, float, float]:
    x, y, z = dicom.position(plane)
    return x, y, z + 0.8 * (plane == 3)


def _same(plane: int) -> tuple[float, float, float]:
    return dicom.position(0)


def _delete(*planes: int) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        for plane in planes:
            file_of(folder, plane).unlink()

    return edit


def _text_file(folder: Path) -> None:
    (folder / "readme.txt").write_text("abdomen\n")


def _fifo(folder: Path) -> None:
    import os

    os.mkfifo(folder / "IM0042.dcm")


def _truncated_by(count: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-count]


_SAME = Right(checks.same_records())
# {name: (change to the folder, outcomes)}
_FAULTS: dict[str, tuple[Callable[[Path], object], tuple[Outcome, ...]]] = {
    "no fault": (lambda folder: None, (_SAME,)),
    "a missing plane": (_delete(3), (REFUSED,)),
    "two missing planes": (_delete(2, 5), (REFUSED,)),
    "a plane twice": (dicom.duplicate, (REFUSED, Warned("IM0099"))),
    "planes of uneven distances": (positions(_uneven), (REFUSED,)),
    "a tilted gantry": (positions(_tilt), (REFUSED,)),
    "all planes in one place": (positions(_same), (REFUSED,)),
    "two series in one folder": (elements(1, 2, SeriesInstanceUID="1.2.9"), (REFUSED,)),
    "planes of another size": (elements(2, Rows=5), (REFUSED,)),
    "a plane of another orientation": (elements(4, ImageOrientationPatient=[0, 1, 0, 0, 0, -1]), (REFUSED,)),
    "no orientation": (elements(ImageOrientationPatient=None), (REFUSED,)),
    "an orientation of zeros": (elements(ImageOrientationPatient=[0, 0, 0, 0, 0, 0]), (REFUSED,)),
    "no position": (elements(3, ImagePositionPatient=None), (REFUSED,)),
    "no pixel size": (elements(PixelSpacing=None), (REFUSED,)),
    "a pixel size of 0": (elements(PixelSpacing=[0, 1]), (REFUSED,)),
    "a negative pixel size": (elements(PixelSpacing=[-1, 1]), (REFUSED,)),
    "no pixel data": (elements(PixelData=None), (REFUSED,)),
    "65535 rows": (elements(Rows=65535, Columns=65535), (REFUSED,)),
    "0 rows": (elements(Rows=0), (REFUSED,)),
    "no rows": (elements(Rows=None), (REFUSED,)),
    "several frames": (elements(NumberOfFrames=3), (REFUSED,)),
    "colors": (elements(PhotometricInterpretation="RGB", SamplesPerPixel=3, PlanarConfiguration=0), (REFUSED,)),
    "inverted gray values": (elements(PhotometricInterpretation="MONOCHROME1"), (REFUSED, Warned("MONOCHROME1"))),
    "a slope of 0": (elements(RescaleSlope=0), (REFUSED,)),
    "a slope that is text": (elements(RescaleSlope=None, RescaleIntercept=None), (REFUSED, Warned("volume-0"))),
    "32 bits in 16": (elements(BitsAllocated=32), (REFUSED,)),
    "no sign": (elements(PixelRepresentation=None), (REFUSED,)),
    "an MR": (elements(Modality="MR"), (Refused("volume-0", "MR"), Warned("MR"))),
    "a secondary capture": (
        elements(SOPClassUID="1.2.840.10008.5.1.4.1.1.7", Modality="OT", ImagePositionPatient=None),
        (REFUSED,),
    ),
    "a report": (elements(PixelData=None, Rows=None, Columns=None, Modality="SR"), (REFUSED,)),
    "padding of the largest number": (dicom.padding, (Warned("(?i)padding"), Right(lambda here, text: _padding(here)))),
    "half of the planes in another folder": (dicom.half_in_another_folder, (REFUSED,)),
    "a truncated plane": (bytes_of(2, _truncated_by(50)), (REFUSED,)),
    "a plane that ends in its header": (bytes_of(2, lambda data: data[:400]), (REFUSED,)),
    "an empty plane": (bytes_of(2, lambda data: b""), (REFUSED,)),
    "a plane of other bytes": (bytes_of(2, lambda data: bytes(128) + b"DICM" + b"\xff" * 300), (REFUSED,)),
    "no planes": (_delete(*range(dicom.PLANES)), (REFUSED, Refused("segmentation-0"))),
    "one plane": (_delete(*range(1, dicom.PLANES)), (REFUSED, Warned("segmentation-0"))),
    "a text file among the planes": (_text_file, (_SAME,)),
    "a FIFO among the planes": (_fifo, (_SAME, REFUSED, Warned("IM0042"))),
    "an unknown transfer syntax": (
        bytes_of(2, lambda data: data.replace(b"1.2.840.10008.1.2.1\x00", b"1.2.840.10008.9.9.9\x00")),
        (REFUSED,),
    ),
}


def _padding(here: Path) -> str:
    """Padding is air, so the largest HU in the record belongs to the body."""
    import zarr

    path = here / "out/case-0.ome.zarr/0"
    if not path.exists():
        return ""
    highest = int(zarr.open(path, mode="r")[:].max())
    return "" if highest < 300 else f"padding became {highest} HU"


_ON_RUNS = (
    *("a missing plane", "a tilted gantry", "65535 rows", "an MR", "a truncated plane", "two series in one folder"),
    *("no pixel data", "padding of the largest number"),
)
INPUTS = [
    BadInput("DICOM", name, line, damaged("dicom", "volume-0", edit), outcomes, _SERIES)
    for command, line in _LINES.items()
    for name, (edit, outcomes) in _FAULTS.items()
    if command == "convert" or name in _ON_RUNS
]
INPUTS.append(
    BadInput(
        "DICOM",
        "half of the planes in another folder",
        _LINES["evaluate"],
        damaged("dicom", "volume-0", dicom.half_in_another_folder),
        (REFUSED,),
        _SERIES,
    )
)
INPUTS.append(
    BadInput(
        "DICOM",
        "no fault",
        _LINES["predict"],
        damaged("dicom", "volume-0"),
        (Right(checks.prediction((SHAPE[0], SHAPE[1], SHAPE[2]))),),
    )
)
