"""The naming schemes of data sets: those that all commands read, and published ones, whose cases `inspect` lists."""

import collections
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mtf_imaging.data.listing.names import differ_only_in
from mtf_imaging.errors import DataError

FIRST = "_0000"  # suffix of patterns for schemes with one file per channel
_KEEP_ONE = "rename one, or give a folder with only one of them"
IMAGES, LABELS = "images", "labels"  # the MSD folders and nnU-Net are imagesTr, labelsTr, imagesTs, labelsTs


@dataclass(frozen=True)
class Scheme:
    """The naming scheme of one data set, with a title.

    The regular expressions `volume` and `labels` match a path that starts with the folder name, without the
    ending of the file. Both have the groups `name` and `test`. The group `test` matches only for the challenge's test
    cases, whose labels are not published. `key` and `labels_name` are format strings that use these groups.

    `schemes.json` lists all schemes. Those of published data sets state the channels, {name: text of the group
    `channel`}, and the labels, {name: value}; {} if they differ between data sets. If `labels` has the group `label`,
    each label has a mask in a folder of the case.
    """

    title: str
    volume: str
    labels: str
    key: str = "{name}"
    labels_name: str = "{name}"
    channels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)

    def case_key(self, match: re.Match) -> str:
        """Returns the case key of a file."""
        return self.key.format(test=match["test"] or "", name=match["name"])

    def name_of_labels(self, match: re.Match) -> str:
        """Returns the name of a volume's segmentation, without its ending."""
        return self.labels_name.format(test=match["test"] or "", name=match["name"])

    def match_files(self, names: Mapping[Path, str], pattern: str) -> dict[str, tuple[Path, re.Match]]:
        """Returns the files that match a pattern, with their matches, by case key.

        Args:
          names: {file: its path without the ending}.
          pattern: `volume` or `labels`.

        Raises:
          DataError: two files belong to the same case.
        """
        matches: dict[str, tuple[Path, re.Match]] = {}
        for file, name in names.items():
            match = re.fullmatch(pattern, name)
            if not match:
                continue
            key = self.case_key(match)
            if key in matches:
                raise _same_case(file, matches[key][0], f"belong to case '{key}'", _KEEP_ONE)
            matches[key] = (file, match)
        return matches

    def match_channels(self, names: Mapping[Path, str]) -> dict[str, dict[int, Path]]:
        """Returns {number: file} of each case's channels, by case key.

        Raises:
          DataError: two files are the same channel of a case.
        """
        pattern = self.volume if self.channels else self.volume.removesuffix(FIRST) + r"_(?P<channel>\d{4})"
        names_of_channels = [*self.channels.values()]
        channels: dict[str, dict[int, Path]] = collections.defaultdict(dict)
        for file, name in names.items():
            if match := re.fullmatch(pattern, name):
                key = self.case_key(match)
                channel = match["channel"]
                number = names_of_channels.index(channel) if self.channels else int(channel)
                same = channels[key].setdefault(number, file)
                if same is not file:
                    what = f"files are channel {match['channel']} of case '{key}'"
                    raise _same_case(file, same, what, "rename one of them")

        return channels


_TABLE = json.loads(Path(__file__).with_name("schemes.json").read_text("utf-8"))
# ANY accepts volumes with any name if no labels are needed; ANY_CHANNELS accepts files with one channel each. The names
# of published data sets are read by `inspect` only, which lists their cases in a `dataset.json` for the other commands.
LITS_SCHEME, NNUNET, MSD, ANY, ANY_CHANNELS, *PUBLISHED = (Scheme(**entry) for entry in _TABLE)


def choose_schemes(names: Mapping[Path, str], listed: frozenset[str]) -> tuple[Scheme, ...]:
    """Returns the schemes to try, in this order; the first one that matches a volume is used.

    nnU-Net comes before MSD, because the MSD pattern also matches nnU-Net names. In an MSD data set, names may end like
    nnU-Net channels, `word_0000`, but its images have the same names as its masks, or `dataset.json` lists their
    complete names.

    Args:
      names: {file: its path without the ending, which begins with the folder name}.
      listed: image paths without endings that `dataset.json` lists, relative to the folder.
    """
    pairs = {tuple(name.split("/")[-2:]) for name in names.values()}
    numbered = {pair for pair in pairs if pair[0].startswith(IMAGES) and re.fullmatch(r".+_\d{4}", pair[-1])}
    has_mask = any((folder.replace(IMAGES, LABELS, 1), name) in pairs for folder, name in numbered)
    is_listed = any(tuple(name.split("/")[-2:]) in numbered for name in listed)
    return (LITS_SCHEME, MSD, NNUNET) if has_mask or is_listed else (LITS_SCHEME, NNUNET, MSD)


def _same_case(file: Path, other: Path, what: str, fix: str) -> DataError:
    names = (path.name for path in (file, other))
    difference = differ_only_in(*names)
    shown = f" (their names differ only in {difference})" if difference else ""
    return DataError(f"{file} and {other}: both {what}{shown}. Fix: {fix}.")
