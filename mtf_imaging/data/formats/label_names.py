"""The names of labels that a file of labels states itself: how each format states them, as {value: name}.

DICOM-SEG, whose segments also have codes, has `dicom/segment_labels.py`.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.files.text_file import read_text

# As 3D Slicer names the segments of a .seg.nrrd file.
_SEGMENT = re.compile(r"Segment\d+_(?=LabelValue$)")
# As Connectome Workbench and TotalSegmentator write extensions of NIfTI: <Label Key="1" ...><![CDATA[liver]]></Label>.
_LABEL = re.compile(rb'<Label\b[^>]*?\bKey="(\d{1,9})"[^>]*>\s*(?:<!\[CDATA\[)?([^<>\]]+)(?:\]\]>)?\s*</Label>')
_LEVELS = 4  # of BIDS: the modality, the session, the subject, the data set
_NAME_KEYS = ("name", "class", "label")  # of the free properties of a label in OME-Zarr


def names_in_nrrd(pairs: Mapping[str, str]) -> dict[int, str]:
    """Returns the names in the key/value pairs of a NRRD file."""
    values = {key: value for key, value in pairs.items() if _SEGMENT.match(key) and value.isdecimal()}
    return _names((value, pairs.get(key.replace("_LabelValue", "_Name"))) for key, value in values.items())


def names_in_nifti(extensions: Iterable[Any]) -> dict[int, str]:
    """Returns the names in the extensions of a NIfTI header."""
    contents = (bytes(each.get_content()) for each in extensions if isinstance(each.get_content(), bytes))
    found = (match for content in contents for match in _LABEL.findall(content))
    return _names((value.decode(), name.decode("utf-8", "replace")) for value, name in found)


def names_in_tables(path: Path) -> dict[int, str]:
    """Returns the names in the table of BIDS for a label image: `*_dseg.tsv` beside it or in the folders above it.

    All words of the table's name must occur in the name of the image; the table with the most words counts.
    """
    words = {*path.name.partition(".")[0].split("_")}
    folders = path.parents[:_LEVELS] if "dseg" in words else ()
    tables = (file for folder in folders for file in folder.glob("*dseg.tsv") if words.issuperset(file.stem.split("_")))
    table = max(tables, key=lambda file: len(file.name), default=None)
    rows = csv.DictReader(read_text(table).splitlines(), delimiter="\t") if table else ()
    return _names((row.get("index"), row.get("name")) for row in rows)


def names_in_zarr(attributes: Mapping[str, Any]) -> dict[int, str]:
    """Returns the names in the attributes of an OME-Zarr image, in the properties of `image-label`."""
    ome = attributes.get("ome", attributes)
    label = ome.get("image-label")
    listed = label.get("properties") if isinstance(label, Mapping) else None
    entries = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return _names((each.get("label-value"), next(filter(None, map(each.get, _NAME_KEYS)), None)) for each in entries)


def _names(pairs: Iterable[tuple[Any, Any]]) -> dict[int, str]:
    return {int(value): name.strip() for value, name in pairs if isinstance(name, str) and str(value).isdecimal()}
