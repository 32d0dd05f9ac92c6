"""Feeds files with random faults to the readers: a file is read, or refused by name, and nothing else happens."""

import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.reliability.files import dicom, nifti, photos, zarr_images
from benchmarks.reliability.results import Results
from mtf_imaging.errors import MtfImagingError

FILE = "reliability_mutations.csv"
COLUMNS = ("kind", "mutations", "read", "refused", "failed", "first_failure")
SEED = 0
_LIMIT_S, _LIMIT_BYTES = 20, 8 << 30  # of one file; TensorFlow reserves addresses
_READ, _REFUSED, _FAILED = range(3)  # exit codes of a reader


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
      write: writes a good file into a folder, and returns it.
      reader: the function that reads the file, or its module and name.
      up: the number of folders from the file to the path that the function takes.
    """

    write: Callable[[Path], Path]
    reader: str | Callable[[Path], Any]
    up: int = 0

    def read(self, path: Path) -> None:
        """Reads the file."""
        module, _, name = self.reader.rpartition(".") if isinstance(self.reader, str) else ("", "", "")
        reader = getattr(importlib.import_module(module), name) if module else self.reader
        reader([path, *path.parents][self.up])


def results(output_dir: Path) -> Results:
    """Returns the results file."""
    return Results(output_dir / FILE, COLUMNS, ("kind",))


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Returns a content with changed bytes or bits, or without a part, or with a part of zeros or a part twice."""
    start, length = draw.randrange(len(content)), draw.choice((1, 4, 64))
    end, how = start + length, draw.randrange(8)
    if how < 4:
        changed = bytearray(content)
        # Most fields of a format are in its first bytes.
        for at in (draw.randrange(draw.choice((len(content), min(400, len(content))))) for _ in range(1 + how)):
            changed[at] = draw.choice((draw.randrange(256), changed[at] ^ 1 << draw.randrange(8), draw.choice(content)))
        return bytes(changed)
    return (
        content[:start],
        content[:start] + content[end:],
        content[:start] + bytes(length) + content[end:],
        content[:end] + content[start:],
    )[how - 4]


def read_in_child(read: Callable[[Path], Any], path: Path, errors: Path) -> int:
    """Returns the exit code of a process that reads a file; a negative one is the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = _FAILED
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_AS, (_LIMIT_BYTES, _LIMIT_BYTES))
        signal.alarm(_LIMIT_S)
        try:
            read(path)
            code = _READ
        except MtfImagingError as error:
            code = _REFUSED if str(errors.parent) in str(error) else _FAILED  # the message may name another file
            errors.write_text(str(error))
        except BaseException:
            errors.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def measure(
    output_dir: Path, only: Sequence[str] = (), again: bool = False, minutes: float | None = None, number: int = 300
) -> list[dict[str, object]]:
    """Reads mutations of every kind of file, and returns the kinds with failures.

    Args:
      output_dir: folder of the results, and of the mutations that failed.
      only: words, one of which the name of a kind must contain.
      again: whether kinds with a result are measured once more.
      minutes: unused; every kind takes about a minute.
      number: number of mutations of each kind.
    """
    file, failures = results(output_dir), []
    done = set() if again else file.keys()
    for name, kind in KINDS.items():
        if (only and not any(word in name for word in only)) or (name,) in done:
            continue
        folder = output_dir / "mutations" / name.replace(" ", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path, draw = kind.write(folder), random.Random(f"{SEED} {name}")
        content, codes, first = path.read_bytes(), Counter(), ""
        with contextlib.suppress(MtfImagingError):  # imports the modules of the reader once, not in every child
            kind.read(path.with_name(f"missing{path.suffix}"))
        assert read_in_child(kind.read, path, folder / "error") == _READ, (folder / "error").read_text()
        for trial in range(number):
            path.write_bytes(mutated(content, draw))
            (folder / "error").write_text("")
            code = read_in_child(kind.read, path, folder / "error")
            codes[code] += 1
            if code not in (_READ, _REFUSED):
                shutil.copy(path, folder / f"failed-{trial}{path.suffix}")
                first = first or f"{trial}: {code} {(folder / 'error').read_text()[-300:]}"
        failed = number - codes[_READ] - codes[_REFUSED]
        row = dict(zip(COLUMNS, (name, number, codes[_READ], codes[_REFUSED], failed, first), strict=True))
        file.add(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if failed:
            failures.append(row)
    return failures


def _itk(name: str, compressed: bool) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        import SimpleITK

        image = SimpleITK.GetImageFromArray(nifti.abdomen()[0].T)
        image.SetSpacing(nifti.SPACING)
        SimpleITK.WriteImage(image, str(folder / name), useCompression=compressed)
        return folder / name

    return write


def _plane(syntax: str = "") -> Callable[[Path], Path]:
    """Returns a function that writes a series, and one of its files in another transfer syntax."""

    def write(folder: Path) -> Path:
        import pydicom

        path = dicom.file_of(dicom.write_series(folder), 3)
        header = pydicom.dcmread(path)
        if syntax == "deflated":
            header.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
        elif syntax == "RLE":
            header.compress(pydicom.uid.RLELossless)
        header.save_as(path)
        return path

    return write


def _enhanced(folder: Path) -> Path:
    from tests.data.dicom_folder import write_enhanced

    return write_enhanced(folder / "enhanced.dcm", nifti.abdomen()[0])


def _dicom_seg(folder: Path) -> Path:
    from mtf_imaging.data.formats.all_formats import write_label_slabs
    from mtf_imaging.data.formats.dicom.label_codes import codes_of_labels
    from tests.data.reading import read_volume

    volume = read_volume(dicom.write_series(folder / "series", FrameOfReferenceUID="1.2.3", PatientID="1"))
    labels = nifti.abdomen()[1]
    codes = codes_of_labels({"liver": 1, "lesion": 2}, None)
    write_label_slabs(folder / "mask.dcm", [labels], volume.geometry, codes)
    return folder / "mask.dcm"


def _mgz(folder: Path) -> Path:
    import nibabel

    nibabel.save(nibabel.MGHImage(nifti.abdomen()[0], np.diag([*nifti.SPACING, 1])), folder / "a.mgz")
    return folder / "a.mgz"


def _in_zarr(file: str) -> Callable[[Path], Path]:
    return lambda folder: zarr_images.write(folder / "a.ome.zarr") / file


def _picture(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
        return folder / name

    return write


def _text(name: str, text: str) -> Callable[[Path], Path]:
    return lambda folder: (folder / name).write_text(text) and folder / name


def _described(folder: Path) -> Path:
    nifti.write(folder / "imagesTr/a_0000.nii.gz", nifti.abdomen()[0])
    nifti.write(folder / "labelsTr/a.nii.gz", nifti.abdomen()[1])
    labels = {"background": 0, "organ": [1, 2], "spot": 2}
    fields = {"channel_names": {"0": "CT"}, "labels": labels, "regions_class_order": [1, 2], "file_ending": ".nii.gz"}
    return _text("dataset.json", json.dumps(fields | {"numTraining": 1}))(folder)


def _keras(folder: Path) -> Path:
    import keras

    layers = [keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(2, 3), keras.layers.BatchNormalization()]
    keras.Sequential(layers).save(folder / "a.keras")
    return folder / "a.keras"


def _torch(folder: Path) -> Path:
    from tests.training.torch_files import Tensor, write

    write(folder / "a.pt", {"conv.weight": Tensor(np.ones((2, 3, 3), np.float32)), "step": 3})
    return folder / "a.pt"


def _safetensors(folder: Path) -> Path:
    from safetensors.numpy import save_file

    save_file({"conv.weight": np.ones((2, 3, 3), np.float32)}, folder / "a.safetensors")
    return folder / "a.safetensors"


def _weights(path: Path) -> None:
    from mtf_imaging.training.checkpoints.weight_files.all_files import open_weights

    weights = open_weights(path)
    for name in weights.shapes:
        weights.read(name)


def _gin(path: Path) -> None:
    import gin

    from mtf_imaging.cli.config.gin_config import bind

    gin.clear_config()
    bind([path], [], {})


_JOB = """import mtf_imaging.models.unet3d
job.task = @unet3d.Segmentation()
unet3d.UNet3D.depth = 2
setup.batch_size = 1
train.optimizer = @Adam()
Adam.learning_rate = 0.003
"""
_DATA = "mtf_imaging.data"
_VOLUME, _MASK = "tests.data.reading.read_volume", "tests.data.reading.read_segmentation"
_PHOTO = f"{_DATA}.pixels.photo_files.read_photo"
_TABLE = "case,x,y,z\n28,0.57,0.57,1.6\n29,0.78,0.78,1.6\n"
KINDS = {
    "NIfTI": Kind(lambda folder: nifti.write(folder / "a.nii", nifti.abdomen()[0]), _VOLUME),
    "NIfTI in gzip": Kind(lambda folder: nifti.write(folder / "a.nii.gz", nifti.abdomen()[0]), _VOLUME),
    "mask": Kind(lambda folder: nifti.write(folder / "a.nii", nifti.abdomen()[1]), _MASK),
    "FreeSurfer": Kind(_mgz, _VOLUME),
    "MetaImage": Kind(_itk("a.mha", False), _VOLUME),
    "MetaImage header": Kind(_itk("a.mhd", True), _VOLUME),
    "NRRD": Kind(_itk("a.nrrd", True), _VOLUME),
    "NRRD header": Kind(_itk("a.nhdr", False), _VOLUME),
    "DICOM": Kind(_plane(), _VOLUME, 1),
    "DICOM in RLE": Kind(_plane("RLE"), _VOLUME, 1),
    "DICOM deflated": Kind(_plane("deflated"), _VOLUME, 1),
    "DICOM enhanced": Kind(_enhanced, _VOLUME, 1),
    "DICOM-SEG": Kind(_dicom_seg, _MASK),
    "OME-Zarr image": Kind(_in_zarr(".zattrs"), _VOLUME, 1),
    "OME-Zarr array": Kind(_in_zarr("0/.zarray"), _VOLUME, 2),
    "OME-Zarr chunk": Kind(_in_zarr("0/0/0/0"), _VOLUME, 4),
    "PNG": Kind(_picture("a.png"), _PHOTO),
    "JPEG": Kind(_picture("a.jpg"), _PHOTO),
    "TIFF": Kind(_picture("a.tif"), _PHOTO),
    "dataset.json": Kind(_described, f"{_DATA}.cases.cases.find_data_set", 1),
    "COCO": Kind(
        lambda folder: photos.annotations_of(photos.write_objects(folder)),
        "mtf_imaging.kinds.objects.reading.instances.read_instances",
    ),
    "spacing table": Kind(_text("spacing.csv", _TABLE), f"{_DATA}.images.spacing_table.read_spacing_table"),
    "Keras": Kind(_keras, _weights),
    "PyTorch": Kind(_torch, _weights),
    "safetensors": Kind(_safetensors, _weights),
    "gin": Kind(_text("job.gin", _JOB), _gin),
}
