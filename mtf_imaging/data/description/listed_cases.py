"""The cases that `dataset.json` lists.

nnU-Net v2 reads the field `dataset`, `{"dataset": {"NAME": {"images": [...], "label": "..."}}}`, instead of the folder
names. The Decathlon and nnU-Net v1 list `training` and `test`; nnU-Net v1 omits channel numbers.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mtf_imaging.data.description.dataset_json import FILE, read_fields
from mtf_imaging.data.listing.image_formats import ENDINGS
from mtf_imaging.data.listing.names import check_key, normalize_name
from mtf_imaging.errors import DataError
from mtf_imaging.plain_text import some

DATASET = "dataset"
_EXAMPLE = '{"case_1": {"images": ["imagesTr/case_1_0000.nii.gz"], "label": "labelsTr/case_1.nii.gz"}}'


class ListedCase(NamedTuple):
    """A case of the field `dataset`.

    Attributes:
      images: the files of the image, one per channel, or one file with all channels.
      labels: the segmentation, or None if the field does not name one.
    """

    images: tuple[Path, ...]
    labels: Path | None


def read_listed_cases(folder: str | Path) -> dict[str, ListedCase] | None:
    """Reads the field `dataset` of the `dataset.json` of a folder.

    Args:
      folder: the folder. Paths are absolute, or relative to it.

    Returns:
      The cases by name; None if the file or the field does not exist.

    Raises:
      DataError: the file cannot be read, the field is malformed, a name cannot be part of a file name, or a file does
        not exist.
    """
    path = Path(folder) / FILE
    fields = read_fields(folder)
    if fields is None or DATASET not in fields:
        return None
    listed = fields[DATASET]
    if not isinstance(listed, Mapping) or not listed:
        raise _malformed(path, f"{DATASET} is {_shortened(listed)}")
    cases: dict[str, ListedCase] = {}
    for name, entry in listed.items():
        key = normalize_name(name)
        check_key(key, path)
        if key in cases:
            what = f"the case '{key}' of {DATASET} occurs twice, in two forms of Unicode"
            raise DataError(f"{path}: {what}. Fix: rename one of them.")
        images = entry.get("images") if isinstance(entry, Mapping) else None
        label = entry.get("label") if isinstance(entry, Mapping) else None
        is_list = isinstance(images, list) and images and all(isinstance(one, str) and one for one in images)
        if not is_list or not (label is None or (isinstance(label, str) and label)):
            raise _malformed(path, f"the case '{name}' of {DATASET} is {_shortened(entry)}")
        files = tuple(Path(folder) / one for one in images)
        cases[key] = ListedCase(files, None if label is None else Path(folder) / label)
    named = (file for case in cases.values() for file in (*case.images, case.labels) if file is not None)
    missing = [str(file) for file in named if not _exists(file)]
    if missing:
        what = f"{DATASET} names {len(missing)} file(s) that do not exist: {some(missing)}"
        fix = f"correct the paths, which are absolute or relative to {folder}"
        raise DataError(f"{path}: {what}. Fix: {fix}.")
    return cases


def listed_images(folder: str | Path) -> frozenset[str]:
    """Returns the images that the fields `training` and `test` list: their paths without endings, such as imagesTr/a.

    Entries of any other form are ignored, because nnU-Net ignores these fields. So are pairs whose label has another
    name: nnU-Net's image a_0000 of the label a, whose number is that of a channel.

    Raises:
      DataError: the file cannot be read.
    """
    fields = read_fields(folder) or {}
    entries = [entry for name in ("training", "test") for entry in _entries(fields.get(name))]
    pairs = ([entry.get("image"), entry.get("label")] if isinstance(entry, Mapping) else [entry] for entry in entries)
    listed = [[_without_ending(path) for path in pair if isinstance(path, str)] for pair in pairs]
    return frozenset(pair[0] for pair in listed if len({Path(path).name for path in pair}) == 1)


def _entries(value: object) -> Iterator[Any]:
    yield from value if isinstance(value, list) else ()


def _without_ending(path: str) -> str:
    name = normalize_name(PurePosixPath(path).as_posix())
    ending = next((one for one in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or with a null character
        return False


def _malformed(path: Path, what: str) -> DataError:
    fix = f"name the files of each case as in nnU-Net, {_EXAMPLE}, or remove the field {DATASET}"
    return DataError(f"{path}: {what}. Fix: {fix}.")


def _shortened(value: object, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
