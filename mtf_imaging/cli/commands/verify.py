"""`mtf-imaging verify`: compares the digests that a run or a result records with the files at hand."""

import json

from absl import flags

from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.settings.setting import Settings, setting, settings


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

    path: tuple[str, ...] = setting(default=(), flag=True)
    files: tuple[str, ...] = setting(default=(), flag=True)
    json: bool = setting(default=False, flag=True)


SUMMARY = "compares the digests of a run or a result with the files at hand."
EXAMPLE = "mtf-imaging verify evaluation --files held_out --files run"
SETTINGS = (_Flags,)
WORDS = "path"
NOTES = (
    "For each recorded file, the output shows ok, changed or missing, and the first 16 digits of its SHA-256 digests. "
    "The exit code is 0 if all are ok, and 1 otherwise.",
    "A run is compared with its configuration, an exported model with its files, and predictions also with their images "
    "if --files names their folders. docs/guides/trace.md explains the digests.",
)


def run(values: flags.FlagValues) -> None:
    if not values.path:
        raise ConfigError(f"verify needs a path. Example: {EXAMPLE}")
    from mtf_imaging.files.provenance.text import as_table, counted, short
    from mtf_imaging.jobs.verifying import OK, verify

    results = [(path, *verify(path, values.files)) for path in values.path]
    bad, total = 0, 0
    for path, compared, left_out in results:
        bad, total = bad + sum(one.status != OK for one in compared), total + len(compared)
        if not values.json:
            rows = [
                (one.status, _row(one.title, short(one.recorded), one.found and short(one.found))) for one in compared
            ]
            rest = f"\nnot compared: {counted(left_out, 'file', 'files')} in other folders; --files names them"
            print(f"{path}\n{as_table(rows)}{rest if left_out else ''}")
    if values.json:
        fields = [
            {"path": path, "files": [one._asdict() for one in own], "not_compared": n} for path, own, n in results
        ]
        print(json.dumps(fields, indent=1))
    if bad:
        raise DataError(
            f"{bad} of {counted(total, 'file', 'files')} differ from the recorded digests. Fix: restore these files, or "
            "compute the result again from the files at hand."
        )


def _row(title: str, recorded: str, found: str | None) -> str:
    if found is None:
        return f"{title}: recorded {recorded}"
    return f"{title}: {recorded}" if found == recorded else f"{title}: recorded {recorded}, now {found}"
