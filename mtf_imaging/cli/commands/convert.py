"""`mtf-imaging convert`: resamples NIfTI cases and writes them as records."""

from absl import flags

from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.runtime.next_step import after_convert
from mtf_imaging.settings.data import ConvertSettings
from mtf_imaging.settings.setting import values_of

SUMMARY = "resamples CT cases to one resolution and writes the records that train reads."
EXAMPLE = "mtf-imaging convert --input_dir cases --output_dir records --resolution 64"
SETTINGS = (ConvertSettings,)


def run(values: flags.FlagValues) -> str | None:
    from mtf_imaging.jobs.converting import convert

    given = FlagSettings(values, ConvertSettings)
    convert(**values_of(ConvertSettings, given))
    return after_convert(values)
