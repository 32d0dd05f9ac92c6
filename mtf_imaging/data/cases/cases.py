"""Find the cases of a folder: which volume belongs to which segmentation, and what each case is called."""

import collections
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.cases.listing import nifti_files, nifti_stem
from mtf_imaging.errors import DataError


@dataclass(frozen=True)
class Case:
    """One patient's scan.

    Attributes:
      key: the name of the case in records, metrics and messages; `N` for `volume-N`.
      volume: file of the CT.
      labels: file of its segmentation, or None.
      prediction_name: file name for a segmentation of this case in its own naming scheme.
    """

    key: str
    volume: Path
    labels: Path | None
    prediction_name: str


@dataclass(frozen=True)
class _Scheme:
    """How one data set names its files; the patterns match the path from the folder's name on, without `.nii[.gz]`.

    Both patterns have the groups `test` (matches in the challenge's test cases, whose labels are not published) and
    `name`.
    """

    volume: str
    labels: str
    key: str
    labels_name: str


# The first scheme with a matching volume is the folder's. nnU-Net comes before MSD, whose pattern would match its
# names, too.
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
# Volumes of any name, where nothing has to be paired.
_ANY = _Scheme(volume=r"(?:.*/)?(?P<test>)(?P<name>[^/]+)", labels="(?!)", key="{name}", labels_name="{name}")
_EXPECTED = (
    "volume-N.nii[.gz] with segmentation-N.nii[.gz] (LiTS), imagesTr/NAME.nii.gz with labelsTr/NAME.nii.gz (MSD), or "
    "imagesTr/NAME_0000.nii.gz with labelsTr/NAME.nii.gz (nnU-Net)"
)
_CHANNEL = re.compile(r"(.+)_(\d{4})")  # nnU-Net: NAME_0000 is the first channel of case NAME
_log = logging.getLogger(__name__)


def find_cases(path: str | Path, need_labels: bool = True) -> list[Case]:
    """Lists the cases below a folder, in natural order of their keys (2 before 10).

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("volume-10.nii", "segmentation-10.nii.gz", "volume-2.nii", "segmentation-2.nii"):
    ...     (folder / name).touch()
    >>> [case.key for case in find_cases(folder)]
    ['2', '10']

    Args:
      path: a folder, searched with its subfolders; or, where no labels are needed, one volume's file. NIfTI files of
        other names are left out, with a warning.
      need_labels: whether every volume must have a segmentation. Test cases of a challenge, which have none, are then
        left out; any other unpaired file is an error. Without it a segmentation is given where there is one, and a
        folder without any of these names is one of volumes, each called by its file.

    Returns:
      The cases, at least one.

    Raises:
      DataError: the folder is missing, unreadable or without cases; a file lacks its partner; a link points to a
        missing file; a case has several channels; or two files claim one key.
    """
    path = Path(path)
    if path.is_file() and not need_labels:
        return [_single_case(path)]
    if not path.exists() and not need_labels and nifti_stem(path) is not None:
        raise DataError(f"{path}: this volume does not exist. Fix: give a NIfTI file, or a folder of them.")
    if not path.is_dir():
        what = "is a file, not a folder" if path.is_file() else "does not exist"
        raise DataError(f"{path}: this folder of cases {what}. Fix: give the folder that holds {_EXPECTED}.")
    scheme, volumes, labels = _pick_scheme(path, need_labels)
    missing = []
    if need_labels:
        missing += [
            f"{v} has no {_labels_name(scheme, m)}.nii[.gz]" for v, m in _only(volumes, labels) if not m["test"]
        ]
        missing += [f"{s} has no volume" for s, _ in _only(labels, volumes)]
    if missing:
        above = f", or give the folder above, {path.parent}" if re.fullmatch("(images|labels)T[rs]", path.name) else ""
        raise DataError(
            f"{path}: {len(missing)} file(s) without their partner: {'; '.join(missing)}. "
            f"Fix: add or remove them{above}."
        )
    cases = [
        Case(key, volume, labels[key][0] if key in labels else None, f"{_labels_name(scheme, match)}.nii.gz")
        for key, (volume, match) in volumes.items()
        if key in labels or not need_labels
    ]
    if not cases:
        raise DataError(
            f"{path}: holds {len(volumes)} test volume(s) and no segmentation. Fix: give a folder of labelled cases."
        )
    return sorted(cases, key=lambda case: natural_key(case.key))


def natural_key(text: str) -> list:
    """Sorting key that orders numbers inside names by value.

    >>> sorted(["10", "9", "liver_10", "liver_9"], key=natural_key)
    ['9', '10', 'liver_9', 'liver_10']
    """
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def _single_case(path: Path) -> Case:
    stem = nifti_stem(path)
    if stem is None:
        raise DataError(f"{path}: is no .nii or .nii.gz file. Fix: convert the volume to NIfTI.")
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
    found = f"no cases among {len(names)} NIfTI file(s), such as {next(iter(names)).name}" if names else "no NIfTI file"
    raise DataError(f"{folder}: holds {found}. Fix: give a folder that holds {_EXPECTED}.")


def _check_channels(folder: Path, names: dict[Path, str], scheme: _Scheme, volumes: dict) -> None:
    """Refuses nnU-Net cases with several channels, and warns about other files with such names."""
    channels = collections.defaultdict(list)
    for file, name in names.items():
        if match := _CHANNEL.fullmatch(name):
            channels[match[1]].append(file)
    first = {names[file] for file, _ in volumes.values()}
    several = {name: files for name, files in channels.items() if f"{name}_0000" in first and len(files) > 1}
    if several and scheme is _SCHEMES["nnU-Net"]:
        name, files = next(iter(several.items()))
        more = f"; {len(several) - 1} other case(s) have several, too" if len(several) > 1 else ""
        raise DataError(
            f"{folder}: case '{Path(name).name}' has {len(files)} channels ({', '.join(f.name for f in files)}){more}. "
            "Only one channel is supported. Fix: keep only the CT of each case, as NAME_0000."
        )
    if scheme is _ANY:
        for files in several.values():
            _log.warning(
                "%s: the names %s look like the channels of one case; each file is read as a separate volume",
                folder,
                ", ".join(file.name for file in files),
            )


def _warn_of_others(folder: Path, files: set[Path]) -> None:
    if files:
        shown = ", ".join(str(file.relative_to(folder)) for file in sorted(files)[:3])
        more = ", ..." if len(files) > 3 else ""
        _log.warning(
            "%s: %d NIfTI file(s) named unlike the other cases are left out: %s%s", folder, len(files), shown, more
        )


def _matching(names: dict[Path, str], scheme: _Scheme, pattern: str) -> dict:
    found = {}
    for file, name in names.items():
        match = re.fullmatch(pattern, name)
        if not match:
            continue
        key = _key(scheme, match)
        if key in found:
            raise DataError(
                f"{file} and {found[key][0]}: both claim case '{key}'. Fix: remove one, or give its own folder."
            )
        found[key] = (file, match)
    return found


def _only(these: dict, those: dict) -> list:
    return [entry for key, entry in these.items() if key not in those]


def _key(scheme: _Scheme, match: re.Match) -> str:
    return scheme.key.format(test=match["test"] or "", name=match["name"])


def _labels_name(scheme: _Scheme, match: re.Match) -> str:
    return scheme.labels_name.format(test=match["test"] or "", name=match["name"])
