"""Finds the cases of a folder, pairs volumes with segmentations and names the cases."""

import collections
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.channels import check_single_channel, order_channels
from mtf_imaging.data.description.dataset_json import find_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.listing.dicom_files import is_dicom_file
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import (
    FORMATS,
    MIXED,
    NIFTI,
    OME_ZARR,
    VOLUME_FORMATS,
    ImageFormat,
    format_by_ending,
    is_image_folder,
    is_unnamed_zarr,
    is_zarr,
)
from mtf_imaging.errors import DataError


@dataclass(frozen=True)
class Case:
    """One image, for instance a CT, with its mask.

    Attributes:
      key: name of the case in records, metrics and messages, for example `N` for `volume-N`.
      volume: path of the image, or of its first channel if each channel has a file.
      labels: path of the segmentation, or None.
      prediction_name: file name for a predicted segmentation, in the naming scheme of the folder.
      channels: paths of all files of the image: one per channel, or one file with all channels.
    """

    key: str
    volume: Path
    labels: Path | None
    prediction_name: str
    channels: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not self.channels:
            object.__setattr__(self, "channels", (self.volume,))


@dataclass(frozen=True)
class _Scheme:
    """The naming scheme of one data set.

    The regular expressions `volume` and `labels` match a path that starts with the name of the folder, without the
    ending of the file. Both have the groups `name` and `test`. The group `test` matches only for test cases of the
    challenge, whose labels are not published. `key` and `labels_name` are format strings of these groups.
    """

    volume: str
    labels: str
    key: str
    labels_name: str


# The first scheme that matches a volume is used. nnU-Net comes before MSD because the MSD pattern also matches nnU-Net
# names.
_SCHEMES = {
    "LiTS": _Scheme(
        volume=r"(?:.*/)?(?P<test>test-)?volume-(?P<name>\d+)",
        labels=r"(?:.*/)?(?P<test>test-)?segmentation-(?P<name>\d+)",
        key="{test}{name}",
        labels_name="{test}segmentation-{name}",
    ),
    "nnU-Net": _Scheme(
        volume=r"(?:.*/)?images(?:Tr|(?P<test>Ts))/(?P<name>[^/]+)_0000",
        labels=r"(?:.*/)?labels(?:Tr|(?P<test>Ts))/(?P<name>[^/]+)",
        key="{name}",
        labels_name="{name}",
    ),
    "MSD": _Scheme(
        volume=r"(?:.*/)?images(?:Tr|(?P<test>Ts))/(?P<name>[^/]+)",
        labels=r"(?:.*/)?labels(?:Tr|(?P<test>Ts))/(?P<name>[^/]+)",
        key="{name}",
        labels_name="{name}",
    ),
}
# Accepts volumes with any name, if no labels are needed.
_ANY = _Scheme(volume=r"(?:.*/)?(?P<test>)(?P<name>[^/]+)", labels="(?!)", key="{name}", labels_name="{name}")
# The same for files with one channel each, in the naming scheme of nnU-Net.
_ANY_CHANNELS = _Scheme(
    volume=r"(?:.*/)?(?P<test>)(?P<name>[^/]+)_0000", labels="(?!)", key="{name}", labels_name="{name}"
)
_EXPECTED = (
    "volume-N.nii[.gz] with segmentation-N.nii[.gz] (LiTS), imagesTr/NAME.nii.gz with labelsTr/NAME.nii.gz (MSD), or "
    "imagesTr/NAME_0000.nii.gz with labelsTr/NAME.nii.gz (nnU-Net)"
)
_FIRST = "_0000"  # ends the pattern of a scheme whose files have one channel each
_log = logging.getLogger(__name__)


def find_cases(path: str | Path, need_labels: bool = True, description: Description | None = None) -> list[Case]:
    """Lists the cases of a folder and its subfolders, in natural order of their keys (2 before 10).

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("volume-10.nii", "segmentation-10.nii.gz", "volume-2.nii", "segmentation-2.nii"):
    ...     (folder / name).touch()
    >>> [case.key for case in find_cases(folder)]
    ['2', '10']

    Args:
      path: a folder, which is searched recursively, or one volume if `need_labels` is False. A volume is a NIfTI file,
        an OME-Zarr folder, or a folder of DICOM files. Images whose names do not match the naming scheme are skipped,
        with a warning.
      need_labels: whether every volume must have a segmentation. If True, test cases of a challenge, which have no
        labels, are skipped, and any other unpaired file is an error. If False, segmentations are optional. If no name
        in the folder matches a scheme, every file is then a volume whose key is its file name.
      description: the channels and the file ending of the images. By default, the `dataset.json` of the folder is read;
        without one, the images are NIfTI files with one channel.

    Returns:
      The cases, at least one.

    Raises:
      DataError: the folder is missing, unreadable or without cases; a file lacks its partner; a link points to a
        missing file; a case lacks a channel or has too many; two files have the same key; or `dataset.json` is
        malformed.
    """
    return find_data_set(path, need_labels, description)[1]


def find_data_set(
    path: str | Path, need_labels: bool = True, description: Description | None = None
) -> tuple[Description, list[Case]]:
    """Finds the description of a data set and its cases.

    Args:
      path: see `find_cases`.
      need_labels: see `find_cases`.
      description: see `find_cases`.

    Returns:
      The description and the cases. The description is that of `dataset.json` or `LITS` if no description is given.

    Raises:
      DataError: see `find_cases`.
    """
    path = Path(path)
    named = next((image_format.name for image_format in FORMATS if image_format.stem(path) is not None), None)
    if not path.exists() and not need_labels and named is not None:
        raise DataError(f"{path}: this volume does not exist. Fix: give a {named} file or a folder of {named} files.")
    if not path.name or path.name == "..":  # the name of a folder of DICOM files is that of the case
        path = path.resolve()
    if is_unnamed_zarr(path):
        raise DataError(
            f"{path}: is a Zarr group, but the name of an OME-Zarr image ends in {OME_ZARR.shown}. Fix: rename it, or "
            "give a link with such a name."
        )
    is_image = path.is_file() or is_image_folder(path)
    is_single = is_image and not need_labels
    if not path.is_dir() and not is_single:
        what = "is a file, not a folder" if path.is_file() else "does not exist"
        raise DataError(f"{path}: this folder of cases {what}. Fix: give a folder that contains {_EXPECTED}.")
    if is_image and need_labels:
        raise DataError(
            f"{path}: this folder is one image, not a folder of cases. Fix: give the folder that contains it and its "
            "segmentation."
        )
    num_training = None
    if description is None:
        description, num_training = find_description(path)
    if is_single:
        return description or LITS, [_single_case(path, description)]
    cases = _cases(path, need_labels, description)
    num_labeled = sum(case.labels is not None and not _is_test(case.volume) for case in cases)
    if need_labels and num_training not in (None, num_labeled):
        _log.warning(
            "%s: contains %d training case(s), but numTraining in dataset.json is %d", path, num_labeled, num_training
        )
    return description or LITS, cases


def _cases(path: Path, need_labels: bool, description: Description | None) -> list[Case]:
    image_format = _image_format(description)
    scheme, volumes, labels, channels = _pick_scheme(path, need_labels, description)
    missing = []
    if need_labels:
        missing += [
            f"{v} has no {_labels_name(scheme, m)}{image_format.shown}"
            for v, m in _only(volumes, labels)
            if not m["test"]
        ]
        missing += [f"{s} has no volume" for s, _ in _only(labels, volumes)]
    if missing:
        is_subfolder = re.fullmatch("(images|labels)T[rs]", path.name)
        remove = f", remove these, or give the parent folder, {path.parent}" if is_subfolder else " or remove these"
        raise DataError(
            f"{path}: {len(missing)} file(s) lack their partner: {'; '.join(missing)}. "
            f"Fix: add the missing files{remove}."
        )
    cases = [
        Case(
            key,
            volume,
            labels[key][0] if key in labels else None,
            _labels_name(scheme, match) + _prediction_ending(volume, description),
            channels.get(key, (volume,)),
        )
        for key, (volume, match) in volumes.items()
        if key in labels or not need_labels
    ]
    if not cases:
        raise DataError(
            f"{path}: contains {len(volumes)} test volume(s) and no segmentation. Fix: give a folder of labeled cases."
        )
    return sorted(cases, key=lambda case: natural_key(case.key))


def natural_key(text: str) -> list:
    """Returns a sorting key that orders numbers inside names by value.

    >>> sorted(["10", "9", "liver_10", "liver_9"], key=natural_key)
    ['9', '10', 'liver_9', 'liver_10']
    """
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def _image_format(description: Description | None) -> ImageFormat:
    """Returns the format of the images and masks; all formats of volumes may be mixed."""
    image_format = NIFTI if description is None else format_by_ending(description.file_ending)
    assert image_format is not None, description  # from_fields checks the ending
    return VOLUME_FORMATS if image_format in MIXED else image_format


def _prediction_ending(volume: Path, description: Description | None) -> str:
    """Returns the ending of the segmentation of a volume: its own format, or compressed NIfTI for DICOM."""
    if is_zarr(volume):
        return OME_ZARR.endings[0]
    return ".nii.gz" if description is None or _image_format(description) is VOLUME_FORMATS else description.file_ending


def _single_case(path: Path, description: Description | None) -> Case:
    image_format = _image_format(description)
    stem = image_format.stem(path)
    if stem is None and image_format.has_dicom and is_dicom_file(path):
        raise DataError(f"{path}: is one file of a DICOM series. Fix: give the folder of the series, {path.parent}.")
    if stem is None:
        raise DataError(
            f"{path}: not a {image_format.any_ending} file. Fix: convert the volume to {image_format.name}."
        )
    several = description is not None and len(description.channels) > 1
    for scheme in (*_SCHEMES.values(), *([_ANY_CHANNELS] if several else []), _ANY):
        name = f"{path.parent.name}/{stem}"
        match = re.fullmatch(scheme.volume, name)
        if match:
            break
    key, files = _key(scheme, match), (path,)
    if description is not None and several and scheme.volume.endswith(_FIRST):
        beside = image_files(path.parent, image_format, subfolders=False, needed=False)
        names = {file: f"{path.parent.name}/{image_format.stem(file)}" for file in beside}
        files = order_channels(path.parent, {key: _channels(names, scheme)[key]}, description)[key]
    return Case(key, path, None, _labels_name(scheme, match) + _prediction_ending(path, description), files)


def _pick_scheme(
    folder: Path, need_labels: bool, description: Description | None
) -> tuple[_Scheme, dict, dict, dict[str, tuple[Path, ...]]]:
    """Returns the folder's naming scheme, its volumes and segmentations as `{key: (path, match)}`, and its channels.

    The channels are the files of each case, by its key; empty if each case has one file.
    """
    root, image_format = folder.absolute().name, _image_format(description)
    names = {
        file: f"{root}/{file.relative_to(folder).with_name(image_format.stem(file)).as_posix()}"
        for file in image_files(folder, image_format)
    }
    several = description is not None and len(description.channels) > 1
    unnamed = [] if need_labels else [*([_ANY_CHANNELS] if several else []), _ANY]
    for scheme in (*_SCHEMES.values(), *unnamed):
        volumes, labels = (_matching(names, scheme, pattern) for pattern in (scheme.volume, scheme.labels))
        if not volumes:
            continue
        channels: dict[str, tuple[Path, ...]] = {}
        used = {file for file, _ in (*volumes.values(), *labels.values())}
        if description is not None and scheme in (_SCHEMES["nnU-Net"], _ANY_CHANNELS):
            numbered = _channels(names, scheme)
            skipped = {key for key, files in numbered.items() if need_labels and all(map(_is_test, files.values()))}
            channels = order_channels(
                folder, {key: files for key, files in numbered.items() if key not in skipped}, description
            )
            used = used.union(*(files.values() for files in numbered.values()))
        else:
            first = [file for file, _ in volumes.values()]
            check_single_channel(folder, names, first, refuse=scheme is _SCHEMES["nnU-Net"], warn=scheme is _ANY)
        _warn_of_others(folder, image_format, names.keys() - used)
        return scheme, volumes, labels, channels
    kind, noun = image_format.name, _noun(image_format)
    content = (
        f"{len(names)} {kind} {noun}(s), such as {next(iter(names)).name}, but no case"
        if names
        else f"no {kind} {noun}"
    )
    raise DataError(f"{folder}: contains {content}. Fix: give a folder that contains {_expected(image_format)}.")


def _is_test(image: Path) -> bool:
    return image.parent.name == "imagesTs"


def _expected(image_format: ImageFormat) -> str:
    if image_format is VOLUME_FORMATS:
        return _EXPECTED
    ending = image_format.shown
    return f"imagesTr/NAME_0000{ending} with labelsTr/NAME{ending}"


def _warn_of_others(folder: Path, image_format: ImageFormat, files: set[Path]) -> None:
    if files:
        shown = ", ".join(str(file.relative_to(folder)) for file in sorted(files)[:3])
        more = ", ..." if len(files) > 3 else ""
        _log.warning(
            "%s: skipped %d %s %s(s) whose names do not match the other cases: %s%s",
            folder,
            len(files),
            image_format.name,
            _noun(image_format),
            shown,
            more,
        )


def _noun(image_format: ImageFormat) -> str:
    return "image" if image_format is VOLUME_FORMATS else "file"


def _matching(names: dict[Path, str], scheme: _Scheme, pattern: str) -> dict:
    matches = {}
    for file, name in names.items():
        match = re.fullmatch(pattern, name)
        if not match:
            continue
        key = _key(scheme, match)
        if key in matches:
            raise DataError(
                f"{file} and {matches[key][0]}: both belong to case '{key}'. "
                "Fix: rename or remove one, or give a folder with only one of them."
            )
        matches[key] = (file, match)
    return matches


def _channels(names: dict[Path, str], scheme: _Scheme) -> dict[str, dict[int, Path]]:
    """Returns {number: file} of the channels of each case, by its key."""
    pattern = scheme.volume.removesuffix(_FIRST) + r"_(?P<channel>\d{4})"
    channels: dict[str, dict[int, Path]] = collections.defaultdict(dict)
    for file, name in names.items():
        if match := re.fullmatch(pattern, name):
            key = _key(scheme, match)
            same = channels[key].setdefault(int(match["channel"]), file)
            if same is not file:
                raise DataError(
                    f"{file} and {same}: both files are channel {match['channel']} of case '{key}'. "
                    "Fix: remove one of them."
                )
    return channels


def _only(these: dict, those: dict) -> list:
    return [entry for key, entry in these.items() if key not in those]


def _key(scheme: _Scheme, match: re.Match) -> str:
    return scheme.key.format(test=match["test"] or "", name=match["name"])


def _labels_name(scheme: _Scheme, match: re.Match) -> str:
    return scheme.labels_name.format(test=match["test"] or "", name=match["name"])
