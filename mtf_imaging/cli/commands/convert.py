"""`mtf-imaging convert`: resamples NIfTI cases and writes them as records."""

import shlex

from absl import flags

from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.settings.data import ConvertSettings
from mtf_imaging.settings.setting import values_of

SUMMARY = "resamples CT cases to one resolution and writes the records that train reads."
EXAMPLE = "mtf-imaging convert --input_dir cases --output_dir records --resolution 64"
SETTINGS = (ConvertSettings,)


def run(values: flags.FlagValues) -> str:
    from mtf_imaging.jobs.converting import convert

    given = FlagSettings(values, ConvertSettings)
    convert(**values_of(ConvertSettings, given))
    records = shlex.quote(values.output_dir)
    return (
        f"mtf-imaging train --data_dir {records} --model_dir run --gin_file JOB (from mtf-imaging plan, or unet3d_demo "
        "for synthetic CTs)"
    )
