"""`mtf-imaging info`: prints what a run or a result comes from."""

import json

from absl import flags

from mtf_imaging.settings.setting import Settings, setting, settings


@settings
class _Flags(Settings):
    """The settings that the command has flags for.

    Attributes:
      path: folder of a run, of folds, of an evaluation, of predictions or of an exported model, or one of their files.
      json: whether to print all fields as JSON, with whole digests and all cases.
    """

    path: tuple[str, ...] = setting(flag=True)
    json: bool = setting(default=False, flag=True)


SUMMARY = "prints what a run or a result comes from: version, checkpoint, cases."
EXAMPLE = "mtf-imaging info run"
SETTINGS = (_Flags,)
WORDS = "path"
NOTES = (
    "For one file: mtf-imaging info evaluation/metrics.json, or mtf-imaging info "
    "evaluation/predictions/segmentation-3.nii.gz. For an exported model: mtf-imaging info model.",
    "The output shows the first 16 digits of each SHA-256 digest. docs/guides/trace.md explains each line.",
)


def run(values: flags.FlagValues) -> None:
    from mtf_imaging.files.provenance.text import as_table
    from mtf_imaging.jobs.informing import info

    origins = [origin for path in values.path for origin in info(path)]
    if values.json:
        print(json.dumps([{"title": one.title, **one.fields} for one in origins], indent=1))
    else:
        print("\n\n".join(f"{one.title}\n{as_table(one.rows)}" for one in origins))
