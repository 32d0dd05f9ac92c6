"""Finds the cases in a folder, pairs volumes with segmentations and names the cases."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.data.cases.channels import check_single_channel, order_channels
from mtf_imaging.data.cases.conflicts import check_doubles, similar_names, warn_of_others, warn_of_similar
from mtf_imaging.data.cases.schemes import (
    ANY,
    ANY_CHANNELS,
    FIRST,
    IMAGES,
    LABELS,
    LITS_SCHEME,
    MSD,
    NNUNET,
    PUBLISHED,
    Scheme,
    choose_schemes,
)
from mtf_imaging.data.description.dataset_json import FILE, description_folders, find_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.file_labels import description_rows
from mtf_imaging.data.description.listed_cases import DATASET, ListedCase, listed_images, read_listed_cases
from mtf_imaging.data.formats.dicom.shared_series import check_series_apart
from mtf_imaging.data.listing.dicom_files import is_dicom_file
from mtf_imaging.data.listing.foreign_formats import foreign_files, how_to_convert, skipped_text
from mtf_imaging.data.listing.image_files import image_digest, image_files
from mtf_imaging.data.listing.image_formats import (
    FORMATS,
    MIXED,
    NIFTI,
    OME_ZARR,
    VOLUME_FORMATS,
    ImageFormat,
    format_by_ending,
    is_dicom_seg,
    is_image_folder,
    is_mask_folder,
    is_unnamed_zarr,
    is_zarr,
    output_ending,
)
from mtf_imaging.data.listing.names import check_names, normalize_name
from mtf_imaging.errors import DataError
from mtf_imaging.files.provenance.digests import table_digest
from mtf_imaging.files.reading import check_not_special


@dataclass(frozen=True)
class Case:
    """One image, for instance a CT, with its mask.

    Attributes:
      key: name of the case in records, metrics and messages, for example `N` for `volume-N`.
      volume: path of the image, or of its first channel if each channel has a file.
      labels: path of the segmentation, or None.
      prediction_name: file name for a predicted segmentation, in the folder's naming scheme.
      channels: paths of all image files: one per channel, or one file with all channels.
    """

    key: str
    volume: Path
    labels: Path | None
    prediction_name: str
    channels: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not self.channels:
            object.__setattr__(self, "channels", (self.volume,))

    def digest(self) -> str:
        """Returns a digest of the contents of the files; dates are ignored, because copying changes them."""
        files = [path for path in (*self.channels, self.labels) if path is not None]
        return table_digest({str(number): image_digest(path) for number, path in enumerate(files)})


class DataSet(NamedTuple):
    """A folder of cases, as it was understood.

    Attributes:
      description: the channels and labels.
      cases: the cases, in natural order.
      layout: the names that were recognized, and the file that describes them.
    """

    description: Description
    cases: list[Case]
    layout: str

    def rows(self) -> list[tuple[str, str]]:
        """Returns what was understood, as names and texts."""
        labeled = sum(case.labels is not None for case in self.cases)
        masks = "" if labeled == len(self.cases) else f", {labeled} with a mask"
        return [("layout", self.layout), ("cases", f"{len(self.cases)}{masks}"), *description_rows(self.description)]


_EXPECTED = "; ".join(scheme.title for scheme in (LITS_SCHEME, MSD, NNUNET))
_log = logging.getLogger(__name__)


def find_cases(path: str | Path, need_labels: bool = True, description: Description | None = None) -> list[Case]:
    """Lists the cases in a folder and its subfolders, in natural order of their keys (2 before 10).

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
        labels, are skipped, and any other unpaired file is an error. If False, segmentations are optional, and if no
        name in the folder matches a scheme, every file is a volume whose key is its file name.
      description: the channels and the file ending of the images. By default, the `dataset.json` of the folder is read;
        without one, the images are NIfTI files with one channel.

    Returns:
      The cases, at least one.

    Raises:
      DataError: the folder is missing, unreadable or without cases; a file lacks its partner; a link points to a
        missing file; a case lacks a channel or has too many; two files have the same key; or `dataset.json` is
        malformed; or two folders contain parts of one DICOM series.
    """
    return find_data_set(path, need_labels, description).cases


def find_data_set(path: str | Path, need_labels: bool = True, description: Description | None = None) -> DataSet:
    """Finds the description of a data set and its cases.

    Args:
      path: see `find_cases`.
      need_labels: see `find_cases`.
      description: see `find_cases`.

    Returns:
      The data set. Without a given description, it comes from `dataset.json`, or is `LITS`.

    Raises:
      DataError: see `find_cases`.
    """
    path = Path(path)
    check_not_special(path)
    named = next((image_format.name for image_format in FORMATS if image_format.stem(path) is not None), None)
    if not path.exists() and not need_labels and named is not None:
        raise DataError(f"{path}: this volume does not exist. Fix: give a {named} file or a folder of {named} files.")
    if not path.name or path.name == "..":  # the name of a DICOM folder is the case name
        path = path.resolve()
    if is_unnamed_zarr(path):
        what = f"is a Zarr group, but the name of an OME-Zarr image ends in {OME_ZARR.shown}"
        raise DataError(f"{path}: {what}. Fix: rename it, or give a link with such a name.")
    is_image = path.is_file() or is_image_folder(path)
    is_single = is_image and not need_labels
    if not path.is_dir() and not is_single:
        what = "is a file, not a folder" if path.is_file() else "does not exist"
        raise DataError(f"{path}: this folder of cases {what}. Fix: give a folder with these names: {_EXPECTED}.")
    if is_image and need_labels:
        what = "this folder is one image, not a folder of cases"
        raise DataError(f"{path}: {what}. Fix: give the folder that contains it and its segmentation.")
    num_training = None
    if description is None:
        description, num_training = find_description(path)
    if is_single:
        return DataSet(description or LITS, [_single_case(path, description)], "one image")
    listed = read_listed_cases(path)
    if listed is None:
        cases, layout = _cases(path, need_labels, description)
    else:
        layout = f"the field {DATASET} of {FILE}"
        cases = _cases_of_list(path, listed, need_labels, description or LITS)
    num_labeled = sum(case.labels is not None and not _is_test(case.volume) for case in cases)
    if need_labels and num_training not in (None, num_labeled):
        what = f"contains {num_labeled} training case(s), but numTraining in dataset.json is {num_training}"
        _log.warning("%s: %s", path, what)
    described = "no dataset.json, so the labels are those of LiTS" if description is None else "labels of dataset.json"
    return DataSet(description or LITS, cases, f"{layout}; {described}")


def _cases(path: Path, need_labels: bool, description: Description | None) -> tuple[list[Case], str]:
    image_format = _image_format(description)
    scheme, volumes, labels, channels = _pick_scheme(path, need_labels, description)
    missing = []
    if need_labels:
        missing += [
            f"{v} has no {scheme.name_of_labels(m)}{image_format.shown}"
            for v, m in _only(volumes, labels)
            if not m["test"]
        ]
        missing += [f"{s} has no volume" for s, _ in _only(labels, volumes)]
    if missing:
        missing += similar_names([v for v, _ in _only(volumes, labels)], [s for s, _ in _only(labels, volumes)])
        is_subfolder = re.fullmatch("(images|labels)T[rs]", path.name)
        parent = f", or give the parent folder, {path.parent}" if is_subfolder else ""
        what = f"{len(missing)} file(s) lack their partner: {'; '.join(missing)}"
        fix = f"add the missing files, correct the names, or list the pairs in {DATASET} of {FILE}{parent}"
        raise DataError(f"{path}: {what}. Fix: {fix}.")
    cases = []
    for key, (volume, match) in volumes.items():
        mask, name = labels.get(key, (None,))[0], scheme.name_of_labels(match) + _prediction_ending(volume, description)
        if mask or not need_labels:
            cases.append(Case(key, volume, mask, name, channels.get(key, (volume,))))
    if not cases:
        what = f"contains {len(volumes)} test volume(s) and no segmentation"
        raise DataError(f"{path}: {what}. Fix: give a folder of labeled cases.")
    folders = (path for case in cases for path in case.channels if path.is_dir() and not is_zarr(path))
    check_series_apart(folders)
    return sorted(cases, key=lambda case: natural_key(case.key)), scheme.title


def _cases_of_list(
    folder: Path, listed: Mapping[str, ListedCase], need_labels: bool, description: Description
) -> list[Case]:
    """Returns the cases that the field `dataset` of `dataset.json` lists.

    Raises:
      DataError: a case lacks its segmentation or has the wrong number of channels, or a file has the wrong format.
    """
    image_format, count, cases = _image_format(description), len(description.channels), []
    for key, (images, labels) in listed.items():
        where = f"{folder / FILE}: the case '{key}' of {DATASET}"
        if need_labels and labels is None:
            raise DataError(f"{where} has no label. Fix: name its segmentation.")
        if len(images) not in (1, count):
            what = f"{len(images)} image(s), but there are {count} channel(s), {', '.join(description.channels)}"
            raise DataError(f"{where} has {what}. Fix: name one file per channel.")
        for file in (*images, *([labels] if labels else [])):
            if image_format.stem(file) is None and not (
                file == labels and (is_mask_folder(file) or is_dicom_seg(file))
            ):
                what = f"{file}, which is not a {image_format.any_ending} file"
                raise DataError(f"{where} names {what}. Fix: convert it to {image_format.name}.")
        name = key + _prediction_ending(images[0], description)
        cases.append(Case(key, images[0], labels, name, images))
    used = {file.resolve() for case in cases for file in (*case.channels, case.labels) if file}
    around = {parent for file in used for parent in file.parents}
    files = ((file, file.resolve()) for file in image_files(folder, image_format, needed=False))
    others = {file for file, real in files if real not in around and not used & {real, real.parent}}
    what = f"{image_format.name} {_noun(image_format)}"
    warn_of_others(folder, what, others, f"that the field {DATASET} of {FILE} does not list")
    warn_of_similar(folder, listed)
    return sorted(cases, key=lambda case: natural_key(case.key))


def natural_key(text: str) -> list:
    """Returns a sorting key that orders numbers inside names by value.

    >>> sorted(["10", "9", "liver_10", "liver_9"], key=natural_key)
    ['9', '10', 'liver_9', 'liver_10']
    """
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def _image_format(description: Description | None) -> ImageFormat:
    """Returns the format of the images and masks; all volume formats may be mixed."""
    image_format = NIFTI if description is None else format_by_ending(description.file_ending)
    assert image_format is not None, description  # from_fields checks the ending
    return VOLUME_FORMATS if image_format in MIXED else image_format


def _prediction_ending(volume: Path, description: Description | None) -> str:
    """Returns the file ending for a volume's segmentation: its own format, or compressed NIfTI for DICOM."""
    if description is None or _image_format(description) is VOLUME_FORMATS:
        return output_ending(volume)
    return description.file_ending


def _single_case(path: Path, description: Description | None) -> Case:
    image_format = _image_format(description)
    stem = image_format.stem(path)
    if stem is None and image_format.has_dicom and is_dicom_file(path):
        raise DataError(f"{path}: is one file of a DICOM series. Fix: give the folder of the series, {path.parent}.")
    if stem is None:
        fix = how_to_convert(foreign_files([path.name], image_format)) or f"convert the volume to {image_format.name}"
        raise DataError(f"{path}: not a {image_format.any_ending} file. Fix: {fix}.")
    several = description is not None and len(description.channels) > 1
    check_names(path.parent, [path.name])
    name = normalize_name(f"{path.absolute().parent.name}/{stem}")
    for scheme in (*_schemes(path, {path: name}, image_format), *([ANY_CHANNELS] if several else []), ANY):
        match = re.fullmatch(scheme.volume, name)
        if match:
            break
    key, files = scheme.case_key(match), (path,)
    if description is not None and several and scheme.volume.endswith(FIRST):
        names = names_in(path.parent, image_format, subfolders=False, needed=False)
        files = order_channels(path.parent, {key: scheme.match_channels(names)[key]}, description)[key]
    return Case(key, path, None, scheme.name_of_labels(match) + _prediction_ending(path, description), files)


def _pick_scheme(
    folder: Path, need_labels: bool, description: Description | None
) -> tuple[Scheme, dict, dict, dict[str, tuple[Path, ...]]]:
    """Returns the folder's naming scheme, its volumes and segmentations as `{key: (path, match)}`, and its channels.

    The channels are {key: files of the case}; empty if each case has one file.
    """
    image_format = _image_format(description)
    names = names_in(folder, image_format)
    several = description is not None and len(description.channels) > 1
    unnamed = [] if need_labels else [*([ANY_CHANNELS] if several else []), ANY]
    for scheme in (*_schemes(folder, names, image_format), *unnamed):
        volumes, labels = (scheme.match_files(names, pattern) for pattern in (scheme.volume, scheme.labels))
        if not volumes:
            continue
        channels: dict[str, tuple[Path, ...]] = {}
        used = {file for file, _ in (*volumes.values(), *labels.values())}
        if description is not None and scheme in (NNUNET, ANY_CHANNELS):
            numbered = scheme.match_channels(names)
            skipped = {key for key, files in numbered.items() if need_labels and all(map(_is_test, files.values()))}
            used_for = {key: files for key, files in numbered.items() if key not in skipped}
            channels = order_channels(folder, used_for, description)
            used = used.union(*(files.values() for files in numbered.values()))
        else:
            first = [file for file, _ in volumes.values()]
            check_single_channel(folder, names, first, refuse=scheme is NNUNET, warn=scheme is ANY)
        if scheme is NNUNET:
            check_doubles(volumes, MSD.match_files({file: names[file] for file in names.keys() - used}, MSD.volume))
        warn_of_others(folder, f"{image_format.name} {_noun(image_format)}", names.keys() - used)
        warn_of_similar(folder, volumes)
        return scheme, volumes, labels, channels
    kind, noun = image_format.name, _noun(image_format)
    foreign = [] if names else foreign_files((path.name for path in folder.rglob("*")), image_format)
    if foreign:
        content = f"no {kind} {noun}, but {skipped_text(map(Path, foreign))}"
        raise DataError(f"{folder}: contains {content}. Fix: {how_to_convert(foreign)}.")

    def fits(pattern: str) -> bool:
        return any(re.fullmatch(pattern, name) for name in names.values())

    if known := [one.title for one in PUBLISHED if fits(one.volume) and fits(one.labels)]:
        what = "only a dataset.json that lists the cases makes them readable"
        raise DataError(f"{folder}: has the names of {known[0]}; {what}. Fix: let inspect write it.")
    some_names = f"{len(names)} {kind} {noun}(s), such as {next(iter(names), folder).name}, but no case"
    content = some_names if names else f"no {kind} {noun}"
    raise DataError(f"{folder}: contains {content}. Fix: give a folder with these names: {_EXPECTED}.")


def names_in(folder: Path, image_format: ImageFormat, **options: object) -> dict[Path, str]:
    """Returns {image: its path without the ending}; the paths begin with the folder name."""
    root = folder.absolute().name
    return {
        file: normalize_name(f"{root}/{file.relative_to(folder).with_name(image_format.stem(file)).as_posix()}")
        for file in image_files(folder, image_format, **options)
    }


def _schemes(path: Path, names: Mapping[Path, str], image_format: ImageFormat) -> tuple[Scheme, ...]:
    """Returns the naming schemes to try; the masks next to an image folder help to choose them."""
    folder = path.absolute() if path.is_dir() and not is_image_folder(path) else path.absolute().parent
    masks = folder.with_name(folder.name.replace(IMAGES, LABELS, 1))
    if masks != folder and masks.is_dir():
        names = {**names, **names_in(masks, image_format, subfolders=False, needed=False)}
    listed = frozenset().union(*map(listed_images, description_folders(path)))
    return choose_schemes(names, listed)


def _is_test(image: Path) -> bool:
    return image.parent.name == "imagesTs"


def _noun(image_format: ImageFormat) -> str:
    return "image" if image_format is VOLUME_FORMATS else "file"


def _only(these: dict, those: dict) -> list:
    return [entry for key, entry in these.items() if key not in those]
