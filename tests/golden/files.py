"""How each kind of file is read, to compare its content."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import onnx
import onnxruntime
import pydicom
import SimpleITK
import tensorflow as tf
import zarr
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

from tests.golden.content import Content
from tests.jobs.test_exported_formats import call, example_inputs

_DURATION = re.compile("seconds|second$|wait")  # a tag of a duration
_FIGURE = re.compile(r"data:image/\w+;base64,([\w+/=]+)")


def _text(content: Content, path: Path) -> None:
    content.text(path.read_text())


def _markdown(content: Content, path: Path) -> None:
    content.text(" ".join(path.read_text().split()))  # lines break elsewhere if the version is longer


def _picture(content: Content, file: Path | io.BytesIO) -> None:
    with Image.open(file) as image:
        content.exact(image.mode, image.getpalette())
        content.array(image)


def _page(content: Content, path: Path) -> None:
    page = path.read_text()
    for figure in _FIGURE.findall(page):
        _picture(content, io.BytesIO(base64.b64decode(figure)))
    content.text(_FIGURE.sub("FIGURE", page))


def _nifti(content: Content, path: Path) -> None:
    image = nibabel.load(path)
    content.text(f"{image.header}\n{[extension.get_content() for extension in image.header.extensions]}")
    content.array(image.dataobj)


def _itk(content: Content, path: Path) -> None:
    header = re.split(rb"\n\n|LOCAL\n", path.read_bytes(), maxsplit=1)[0]
    content.text(re.sub("CompressedDataSize.*", "", header.decode()))
    content.array(SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(path)))


def _dicom(content: Content, path: Path) -> None:
    file = pydicom.dcmread(path)
    content.array(file.pixel_array)
    del file.PixelData
    file.walk(lambda part, element: part.__delitem__(element.tag) if element.VR in ("DA", "TM", "DT", "UI") else None)
    content.text(file.to_json())


def _numpy(content: Content, path: Path) -> None:
    arrays = np.load(path)
    for name in arrays if path.suffix == ".npz" else [""]:
        content.exact(name)
        content.array(arrays[name] if name else arrays)


def _zarr(content: Content, folder: Path) -> None:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content.exact(str(path.relative_to(folder)))
        if path.name == "zarr.json":
            content.text(path.read_text())
            if json.loads(path.read_text())["node_type"] == "array":
                content.array(zarr.open_array(path.parent, mode="r")[...])
        elif "/c/" not in str(path.relative_to(folder)):
            content.exact(path.read_bytes())


def _checkpoint(content: Content, path: Path) -> None:
    reader = tf.train.load_checkpoint(str(path.with_suffix("")))
    for name in sorted(reader.get_variable_to_shape_map()):
        content.exact(name)
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
            content.array(reader.get_tensor(name))


def _events(content: Content, path: Path) -> None:
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            content.exact(event.step, value.tag, value.metadata.plugin_data.plugin_name)
            if _DURATION.search(value.tag):
                continue
            if value.HasField("image"):
                _picture(content, io.BytesIO(value.image.encoded_image_string))
            elif value.HasField("simple_value"):
                content.numbers(value.simple_value)
            else:
                for item in np.ravel(tf.make_ndarray(value.tensor)):
                    content.text(item.decode()) if isinstance(item, bytes) else content.numbers(item)


def _saved_model(content: Content, path: Path) -> None:
    model = tf.saved_model.load(str(path.parent))
    for name, function in sorted(model.signatures.items()):
        content.exact(name, sorted(function.structured_input_signature[1]), sorted(function.structured_outputs))
        _results(content, path, name)


def _onnx(content: Content, path: Path) -> None:
    session = onnxruntime.InferenceSession(str(path))
    for field in (*session.get_inputs(), *session.get_outputs()):
        content.exact(field.name, field.type, [size if isinstance(size, int) else "any" for size in field.shape])
    content.exact([(one.domain, one.version) for one in onnx.load(path).opset_import])
    content.text(str(session.get_modelmeta().custom_metadata_map))
    _results(content, path, path.stem)


def _tflite(content: Content, path: Path) -> None:
    content.exact(Interpreter(str(path)).get_signature_list())
    _results(content, path, path.stem)


def _results(content: Content, path: Path, name: str) -> None:
    """Adds what a signature of an exported network computes from the example inputs of its fields."""
    card = json.loads((path.parent / "input.json").read_text())

    def fields(part: str) -> list[SimpleNamespace]:
        found = card["signatures"][name][part].items()
        return [SimpleNamespace(name=key, **value | {"dtype": tf.as_dtype(value["dtype"])}) for key, value in found]

    signature = SimpleNamespace(name=name, inputs=fields("inputs"), outputs=fields("outputs"))
    for key, value in sorted(call(path.parent, card["format"], signature, example_inputs(signature)).items()):
        content.exact(key)
        content.array(value, is_rough=True)


# The reader of each file name; None for files whose content is that of another file. The first that matches counts.
_READERS: dict[str, Callable[[Content, Path], None] | None] = {
    r"\.zarr": _zarr,
    r"\.nii(\.gz)?": _nifti,
    r"\.(mha|nrrd)": _itk,
    r"\.dcm": _dicom,
    r"\.np[yz]": _numpy,
    r"\.(png|jpg)": _picture,
    r"\.html": _page,
    r"\.md": _markdown,
    r"\.(json|jsonl|csv|gin|py|txt)|/checkpoint": _text,
    r"\.index": _checkpoint,
    r"\.data-\d+-of-\d+": None,  # of .index
    r"/events": _events,
    r"/saved_model\.pb": _saved_model,
    r"/fingerprint\.pb": None,  # a hash of saved_model.pb
    r"\.onnx": _onnx,
    r"\.tflite": _tflite,
}


def digests(folder: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Returns the digests of the files below a folder by their paths in `root`; a Zarr folder counts as one file.

    A file that no reader is for is compared by its bytes.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(root).as_posix()
        if ".zarr/" in name or (path.is_dir() and path.suffix != ".zarr"):
            continue
        name, content = re.sub(r"/events\.out\.tfevents[^/]*$", "/events", name), Content(root)
        for pattern, read in _READERS.items():
            if re.search(f"(?:{pattern})$", name):
                if read:
                    read(content, path)
                break
        else:
            read = _text
            content.exact(path.read_bytes())
        if read:
            yield name, str(content)
