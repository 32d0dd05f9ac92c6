"""Finds the cases of a folder, pairs volumes with segmentations and names the cases."""

import collections
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.listing import nifti_files, nifti_stem
from mtf_imaging.errors import DataError


@dataclass(frozen=True)
class Case:
    """One CT with its mask.

    Attributes:
      key: name of the case in records, metrics and messages, for example `N` for `volume-N`.
      volume: path of the CT.
      labels: path of the segmentation, or None.
      prediction_name: file name for a predicted segmentation, in the naming scheme of the folder.
    """

    key: str
    volume: Path
    labels: Path | None
    prediction_name: str


@dataclass(frozen=True)
class _Scheme:
    """The naming scheme of one data set.

    The regular expressions `volume` and `labels` match a path that starts with the name of the folder, without
    `.nii[.gz]`. Both have the groups `name` and `test`. The group `test` matches only for test cases of the challenge,
    whose labels are not published. `key` and `labels_name` are format strings of these groups.
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
_EXPECTED = (
    "volume-N.nii[.gz] with segmentation-N.nii[.gz] (LiTS), imagesTr/NAME.nii.gz with labelsTr/NAME.nii.gz (MSD), or "
    "imagesTr/NAME_0000.nii.gz with labelsTr/NAME.nii.gz (nnU-Net)"
)
_CHANNEL = re.compile(r"(.+)_(\d{4})")  # nnU-Net: NAME_0000 is the first channel of case NAME
_log = logging.getLogger(__name__)


def find_cases(path: str | Path, need_labels: bool = True) -> list[Case]:
    """Lists the cases of a folder and its subfolders, in natural order of their keys (2 before 10).

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("volume-10.nii", "segmentation-10.nii.gz", "volume-2.nii", "segmentation-2.nii"):
    ...     (folder / name).touch()
    >>> [case.key for case in find_cases(folder)]
    ['2', '10']

    Args:
      path: a folder, which is searched recursively, or the file of one volume if `need_labels` is False. NIfTI files
        whose names do not match the naming scheme are skipped, with a warning.
      need_labels: whether every volume must have a segmentation. If True, test cases of a challenge, which have no
        labels, are skipped, and any other unpaired file is an error. If False, segmentations are optional. If no name
        in the folder matches a scheme, every file is then a volume whose key is its file name.

    Returns:
      The cases, at least one.

    Raises:
      DataError: the folder is missing, unreadable or without cases; a file lacks its partner; a link points to a
        missing file; a case has several channels; or two files have the same key.
    """
    path = Path(path)
    if path.is_file() and not need_labels:
        return [_single_case(path)]
    if not path.exists() and not need_labels and nifti_stem(path) is not None:
        raise DataError(f"{path}: this volume does not exist. Fix: give a NIfTI file or a folder of NIfTI files.")
    if not path.is_dir():
        what = "is a file, not a folder" if path.is_file() else "does not exist"
        raise DataError(f"{path}: this folder of cases {what}. Fix: give a folder that contains {_EXPECTED}.")
    scheme, volumes, labels = _pick_scheme(path, need_labels)
    missing = []
    if need_labels:
        missing += [
            f"{v} has no {_labels_name(scheme, m)}.nii[.gz]" for v, m in _only(volumes, labels) if not m["test"]
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
        Case(key, volume, labels[key][0] if key in labels else None, f"{_labels_name(scheme, match)}.nii.gz")
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


def _single_case(path: Path) -> Case:
    stem = nifti_stem(path)
    if stem is None:
        raise DataError(f"{path}: not a .nii or .nii.gz file. Fix: convert the volume to NIfTI.")
    for scheme in _SCHEMES.values():
        match = re.fullmatch(scheme.volume, f"{path.parent.name}/{stem}")
        if match:
            return Case(_key(scheme, match), path, None, f"{_labels_name(scheme, match)}.nii.gz")
    return Case(stem, path, None, f"{stem}.nii.gz")


def _pick_scheme(folder: Path, need_labels: bool) -> tuple[_Scheme, dict, dict]:
    """Returns the folder's naming scheme, its volumes and its segmentations as `{key: (path, match)}`."""
    root = folder.absolute().name
    names = {
        file: f"{root}/{file.relative_to(folder).with_name(nifti_stem(file)).as_posix()}"
        for file in nifti_files(folder)
    }
    for scheme in (*_SCHEMES.values(), *(() if need_labels else (_ANY,))):
        volumes, labels = (_matching(names, scheme, pattern) for pattern in (scheme.volume, scheme.labels))
        if volumes:
            _check_channels(folder, names, scheme, volumes)
            _warn_of_others(folder, names.keys() - {file for file, _ in (*volumes.values(), *labels.values())})
            return scheme, volumes, labels
    content = f"{len(names)} NIfTI file(s), such as {next(iter(names)).name}, but no case" if names else "no NIfTI file"
    raise DataError(f"{folder}: contains {content}. Fix: give a folder that contains {_EXPECTED}.")


def _check_channels(folder: Path, names: dict[Path, str], scheme: _Scheme, volumes: dict) -> None:
    """Refuses nnU-Net cases with several channels, and warns about other files named like channels."""
    channels = collections.defaultdict(list)
    for file, name in names.items():
        if match := _CHANNEL.fullmatch(name):
            channels[match[1]].append(file)
    first = {names[file] for file, _ in volumes.values()}
    several = {name: files for name, files in channels.items() if f"{name}_0000" in first and len(files) > 1}
    if several and scheme is _SCHEMES["nnU-Net"]:
        name, files = next(iter(several.items()))
        more = f"; {len(several) - 1} other case(s) also have several channels" if len(several) > 1 else ""
        raise DataError(
            f"{folder}: case '{Path(name).name}' has {len(files)} channels ({', '.join(f.name for f in files)}){more}. "
            "Only one channel is supported. Fix: keep only the CT of each case, as NAME_0000."
        )
    if scheme is _ANY:
        for files in several.values():
            _log.warning(
                "%s: %s are named like the channels of one case; each file is read as a separate volume",
                folder,
                ", ".join(file.name for file in files),
            )


def _warn_of_others(folder: Path, files: set[Path]) -> None:
    if files:
        shown = ", ".join(str(file.relative_to(folder)) for file in sorted(files)[:3])
        more = ", ..." if len(files) > 3 else ""
        _log.warning(
            "%s: skipped %d NIfTI file(s) whose names do not match the other cases: %s%s",
            folder,
            len(files),
            shown,
            more,
        )


def _matching(names: dict[Path, str], scheme: _Scheme, pattern: str) -> dict:
    matches = {}
    for file, name in names.items():
        match = re.fullmatch(pattern, name)
        if not match:
            continue
        key = _key(scheme, match)
        if key in matches:
            raise DataError(
                f"{file} and {matches[key][0]}: both files belong to case '{key}'. "
                "Fix: remove one, or give a folder with only one of them."
            )
        matches[key] = (file, match)
    return matches


def _only(these: dict, those: dict) -> list:
    return [entry for key, entry in these.items() if key not in those]


def _key(scheme: _Scheme, match: re.Match) -> str:
    return scheme.key.format(test=match["test"] or "", name=match["name"])


def _labels_name(scheme: _Scheme, match: re.Match) -> str:
    return scheme.labels_name.format(test=match["test"] or "", name=match["name"])
