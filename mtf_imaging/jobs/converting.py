"""Converts NIfTI cases to records."""

import logging

from mtf_imaging.data.records.convert import convert as convert_cases
from mtf_imaging.data.records.label_counts import survey_records
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.kinds.all_kinds import check_volumes
from mtf_imaging.settings.data import ConvertSettings
from mtf_imaging.settings.setting import takes

_logger = logging.getLogger(__name__)


@takes(ConvertSettings)
def convert(own: ConvertSettings) -> list[str]:
    """Resamples cases to a common grid of voxels, and writes the records that `train` reads.

    An interrupted conversion resumes where it stopped. Existing records of other cases are never overwritten.

    Returns:
      The case keys, in natural order.

    Raises:
      DataError: a case is unusable, or the output folder contains other files.
      ConfigError: another process is writing to the output folder, or `grids`, `multiple` or `chunk` is invalid.
    """
    check_no_run(own.output_dir)
    check_volumes(own.input_dir, "{kind} need no conversion: train reads them directly, with the data set {data_set}.")
    keys = convert_cases(
        own.input_dir,
        own.output_dir,
        own.resolution,
        own.spacing,
        own.spacing_table,
        workers=own.workers,
        progress=own.progress,
        grids=own.grids,
        multiple=own.multiple,
        chunk=own.chunk,
        crop_to_nonzero=own.crop_to_nonzero,
    )
    for text in survey_records(own.output_dir).missing_warnings():
        _logger.warning("%s: %s", own.output_dir, text)
    return keys
