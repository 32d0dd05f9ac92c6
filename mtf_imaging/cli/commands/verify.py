"""`mtf-imaging verify`: compares the digests that a run or a result records with the files at hand."""

import json
from typing import TYPE_CHECKING

from absl import flags

from mtf_imaging.errors import DataError
from mtf_imaging.plain_text import counted
from mtf_imaging.settings.setting import Settings, setting, settings

if TYPE_CHECKING:
    from mtf_imaging.jobs.verifying import Compared


@settings
class _Flags(Settings):
    """The settings that the command has flags for.

    Attributes:
      path: folder of a run, of folds, of an evaluation, of scores, of predictions or of an exported model, or one of
        their files.
      files: folders of the images, references, scored predictions and runs, which a result does not contain. Without
        them, only the files of the result itself are compared.
      json: whether to print the comparison as JSON, with whole digests.
    """

    path: tuple[str, ...] = setting(flag=True)
    files: tuple[str, ...] = setting(default=(), flag=True)
    json: bool = setting(default=False, flag=True)


SUMMARY = "compares the digests of a run or a result with the files at hand."
EXAMPLE = "mtf-imaging verify evaluation --files held_out --files run"
SETTINGS = (_Flags,)
WORDS = "path"
NOTES = (
    "For each recorded file, the output shows ok, changed or missing, and the first 16 digits of its SHA-256 digests. "
    "The exit code is 0 if all are ok, and 1 otherwise.",
    "A run is compared with its configuration, and an exported model with its files. --files adds the images of "
    "predictions, and the runs of their networks. docs/guides/trace.md explains the digests.",
)


def run(values: flags.FlagValues) -> None:
    from mtf_imaging.jobs.verifying import OK, verify

    results = [(path, *verify(path, files=values.files)) for path in values.path]
    if values.json:
        fields = ("path", "files", "not_compared")
        listed = ((path, [one._asdict() for one in own], left_out) for path, own, left_out in results)
        print(json.dumps([dict(zip(fields, one, strict=True)) for one in listed], indent=1))
    else:
        print("\n\n".join(_table(*one) for one in results))
    every = [one for _, compared, _ in results for one in compared]
    if bad := sum(one.status != OK for one in every):
        raise DataError(
            f"{', '.join(values.path)}: {bad} of {counted(len(every), 'file')} are missing or differ "
            "from their recorded digests. Fix: restore these files, or compute the result again."
        )


def _table(path: str, compared: "list[Compared]", left_out: int) -> str:
    from mtf_imaging.files.provenance.text import as_table, short
    from mtf_imaging.jobs.verifying import OK

    rows = []
    for one in compared:
        now = f", now {short(one.found)}" if one.found and one.status != OK else ""
        rows.append((one.status, f"{one.title}: {short(one.recorded)}{now}"))
    rest = f"\nnot compared: {counted(left_out, 'file')} in other folders, which --files can name"
    return f"{path}\n{as_table(rows)}{rest if left_out else ''}"
