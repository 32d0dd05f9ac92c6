"""Records as images to train on."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.data.description.differences import Difference, differences
from mtf_imaging.data.intensities.window import check_window
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.intensities import resolve_intensities
from mtf_imaging.data.records.label_counts import survey_records
from mtf_imaging.data.records.manifest import is_plain_lits, open_records, read_manifest
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.buckets import Samplings, format_grids
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.kinds.facts import VOLUMES, Facts
from mtf_imaging.kinds.kind import TrainingImages
from mtf_imaging.kinds.volumes.held_out import MEAN, HeldOutRecords

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task

Folder = str | Path | Subset


class Training(TrainingImages[Description | None, Folder]):
    """The volumes of records.

    Args:
      data_set: the records.
    """

    data_sets = Records

    def __init__(self, data_set: Records) -> None:
        self._data_set = data_set

    def description(self, data_dir: Folder) -> Description | None:
        """Returns the description of the records, with the intensity schemes of the training data.

        The window of the data set applies to LiTS only, so the LiTS description does not contain it.

        Returns:
          The description; None for records that do not exist yet, which a dry run accepts.
        """
        if _is_missing(data_dir):
            return None
        manifest, window = open_records(data_dir), self._data_set.window
        schemes = resolve_intensities(manifest, window, self._data_set.intensities)
        if is_plain_lits(manifest.description) and schemes[0].window == check_window(window):
            return manifest.description
        return dataclasses.replace(manifest.description, intensities=schemes)

    def differences(self, description: Description | None, fields: dict | None, where: str) -> list[Difference]:
        return differences(description or LITS, LITS if fields is None else from_fields(fields, where))

    def label_survey(self, folder: Folder, description: Description | None, is_held_out: bool) -> LabelSurvey | None:
        return None if _is_missing(folder) else survey_records(folder)

    def has_several_grids(self, data_dir: Folder) -> bool:
        return not _is_missing(data_dir) and isinstance(self._data_set.sampling(data_dir), Samplings)

    def measure(self, description: Description | None) -> str:
        return "lesion" if description is None or description.rules == LITS_RULES else MEAN

    def agreed(self, data_dir: Folder, eval_dir: Folder | None) -> list[str]:
        return [repr(open_records(folder)) for folder in (data_dir, eval_dir) if folder]

    def cases(self, data_dir: Folder) -> dict[str, str | None]:
        return {key: source.digest if source else None for key, source in open_records(data_dir).sources.items()}

    def evaluation(
        self, data_dir: Folder, eval_dir: Folder, description: Description | None, task: "Task", progress: bool
    ) -> HeldOutRecords:
        manifest, records = open_records(data_dir, spacing=self._data_set.spacing), self._data_set
        spacing = format_spacing(manifest.sampling.spacing)
        scored = Records(records.window, None, spacing, records.intensities, records.patches)
        return HeldOutRecords(scored, progress, manifest.description)

    def facts(self, data_dir: Folder, sizes: tuple[int, ...], description: Description | None) -> Facts:
        sampling = self._data_set.sampling(data_dir)
        grids = sampling.grids if isinstance(sampling, Samplings) else [sizes]
        fields = None if description is None or is_plain_lits(description) else as_fields(description)
        return Facts(VOLUMES, format_grids(grids), format_spacing(sampling.spacing), description=fields)


def _is_missing(data_dir: Folder) -> bool:
    return read_manifest(Path(data_dir)) is None
