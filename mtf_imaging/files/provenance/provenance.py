"""The provenance of predictions and scores."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from mtf_imaging.files.provenance.digests import Stamp, table_digest
from mtf_imaging.files.provenance.package import Package, this_package
from mtf_imaging.files.provenance.runs import TrainedRun

_NOTE_BYTES = 79  # of the field `descrip` of NIfTI; the last of its 80 bytes is 0
_NOTE_DIGITS = 12


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The origin of predictions or scores. It contains no paths and no times, so equal results have equal provenance.

    Attributes:
      package: the version of this package that computed them.
      runs: the networks; empty if only files were scored.
      rules: the rules of prediction and scoring, JSON values by name.
      layout: "mesh_shape" and "layout" of the computation; None if it had no layout.
      files: the names and digests of the evaluated files, by case and by the role of the file, such as "reference".
    """

    package: Package = dataclasses.field(default_factory=this_package)
    runs: tuple[TrainedRun, ...] = ()
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    layout: Mapping[str, str] | None = None
    files: Mapping[str, Mapping[str, Stamp]] = dataclasses.field(default_factory=dict)

    def with_files(self, files: Mapping[str, Mapping[str, Stamp]], **rules: object) -> "Provenance":
        """Returns a copy with the names and digests of evaluated files and additional rules."""
        return dataclasses.replace(self, files=files, rules={**self.rules, **rules})

    def as_json(self, lists_cases: bool = True) -> dict[str, Any]:
        """Returns the fields for JSON.

        Args:
          lists_cases: whether to list the training cases in addition to their digest.
        """
        runs = [run.as_json() for run in self.runs]
        if not lists_cases:
            for run in runs:
                if run["training"]:
                    run["training"] = {key: one for key, one in run["training"].items() if key != "training_cases"}
        fields: dict[str, Any] = {"package": self.package.as_json(), "runs": runs, "rules": dict(self.rules)}
        if self.layout is not None:
            fields["layout"] = dict(self.layout)
        if self.files:
            digests, names = (
                {case: {role: getattr(stamp, part) for role, stamp in own.items()} for case, own in self.files.items()}
                for part in ("sha256", "name")
            )
            rows = {f"{case}\t{role}": one for case, own in digests.items() for role, one in own.items()}
            fields |= {"files_sha256": table_digest(rows), "files": digests, "file_names": names}
        return fields

    @property
    def image_fields(self) -> dict[str, Any]:
        """The fields for image files, without training cases, and without the layout, which does not change files."""
        return dataclasses.replace(self, layout=None).as_json(lists_cases=False)

    def text(self, most_characters: int | None = None) -> str:
        """Returns `image_fields` as JSON in ASCII, on one line.

        >>> Provenance(Package("0.1.0")).text()
        '{"package": {"name": "mtf_imaging", "version": "0.1.0", "commit": null}, "runs": [], "rules": {}}'
        >>> run = TrainedRun("run", "ckpt-400", "last", 400, "3f2a9c1d", None, {"starts": [{"step": 0}] * 99})
        >>> len(Provenance(Package("0.1.0"), (run,)).text(400))
        253

        Args:
          most_characters: the limit of the file format. A longer text leaves out the training of the runs. If it is
            still too long, the result is `note`. None for no limit.
        """
        fields = self.image_fields
        text = json.dumps(fields)
        if most_characters is not None and len(text) > most_characters:
            text = json.dumps({**fields, "runs": [{**run, "training": None} for run in fields["runs"]]})
            if len(text) > most_characters:
                return self.note[:most_characters]
        return text

    @property
    def note(self) -> str:
        """The provenance in at most 79 ASCII characters, for image headers.

        >>> run = TrainedRun("run", "ckpt-400", "last", 400, "3f2a9c1d4e5b6a7f", "1a2b3c4d5e6f7a8b")
        >>> Provenance(Package("0.1.0", "33b0040c43707553"), (run,)).note
        'mtf_imaging 0.1.0+g33b0040c4 ckpt-400 3f2a9c1d4e5b cfg 1a2b3c4d5e6f'
        >>> Provenance(Package("0.1.0", "33b0040c43707553"), (run, run)).note
        'mtf_imaging 0.1.0+g33b0040c4 2 runs ee6c716eed95'
        """
        words = [self.package.text]
        if len(self.runs) == 1:
            (run,) = self.runs
            words += [run.checkpoint, run.checkpoint_digest[:_NOTE_DIGITS]]
            if run.configuration_digest:
                words += ["cfg", run.configuration_digest[:_NOTE_DIGITS]]
        elif self.runs:
            digests = {str(number): run.checkpoint_digest for number, run in enumerate(self.runs)}
            words += [f"{len(self.runs)} runs", table_digest(digests)[:_NOTE_DIGITS]]
        return " ".join(words).encode("ascii", "replace").decode()[:_NOTE_BYTES]
