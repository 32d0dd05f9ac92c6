"""Compares the plans of ten data sets with those of nnU-Net, and writes the table to docs/evidence/plan.md.

    python -m benchmarks.plan_table
    python -m benchmarks.plan_table --nnunet_python venv/bin/python  # a Python with nnU-Net 2

Both plan for one GPU on which tensors may take 8 GiB, nnU-Net's default. The second command runs nnU-Net's own planner,
and stores its plans in docs/figures/plan_nnunet.json, which the first one reads.
"""

import argparse
import dataclasses
import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.figures import FIGURES, ROOT, with_table
from benchmarks.tables import markdown
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.fingerprint import FOREGROUND_PERCENTAGES, CaseFingerprint, Fingerprint, Foreground
from mtf_imaging.data.intensities.schemes import WINDOW
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Spacing
from mtf_imaging.jobs import searching
from mtf_imaging.jobs.planning import JobPlan, plan_fingerprint
from mtf_imaging.models.unet3d import build_task
from mtf_imaging.planner.cost.hardware import HARDWARE

PAGE, STORED, NAME = ROOT / "docs/evidence/plan.md", FIGURES / "plan_nnunet.json", "plan"
_MEMORY = 8 * 2**30  # for tensors
_PNG, _OUT_OF_PLANE = ".png", 999.0  # nnU-Net's thickness of pictures
_CLIPPED, _MASKED = "clipped to percentiles", "z-score of nonzero voxels"
_SCHEMES = {"CTNormalization": _CLIPPED, "ZScoreNormalization": "z-score", "RGBTo01Normalization": "rgb_to_0_1"}
_WHY = {  # {property: reason for a difference}
    "pools": "as the levels",
    "steps": "as many voxels as nnU-Net sees",
    "flips": "names of sides",
    "rotation": "the shape of the input",
}


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set of equal cases.

    Attributes:
      cases: number of cases.
      shape, spacing: voxels along x, y and z, and their size in mm.
      labels: names of the labels.
      share: the share of the voxels that have a label.
      channels: the channel names.
      nonzero: voxels along x, y and z of the box of the nonzero voxels; None for the whole volume.
      ending: ending of the files.
    """

    cases: int
    shape: Grid
    spacing: Spacing
    labels: Sequence[str]
    share: float
    channels: tuple[str, ...] = ("CT",)
    nonzero: Grid | None = None
    ending: str = ".nii.gz"

    @property
    def kept(self) -> Grid:
        """The voxels that nnU-Net keeps."""
        return self.nonzero or self.shape

    def fingerprint(self) -> Fingerprint:
        """Returns the fingerprint of the data set."""
        values = {name: number for number, name in enumerate(self.labels, 1)}
        masks = {name: (value,) for name, value in values.items()}
        volume, labeled = math.prod(self.shape), round(math.prod(self.shape) * self.share / len(values))
        percentiles = np.interp(FOREGROUND_PERCENTAGES, (0, 0.5, 99.5, 100), (-90, -31, 121, 300))
        case = CaseFingerprint(
            key="",
            shape=self.shape,
            spacing=self.spacing,
            axis_codes="RAS",
            voxels={0: volume - labeled * len(values)} | dict.fromkeys(values.values(), labeled),
            middles={},
            labeled=tuple((n // 3, n - n // 3) for n in self.shape),
            nonzero=tuple(((n - k) // 2, (n + k) // 2) for n, k in zip(self.shape, self.kept, strict=True)),
            channels=(ChannelStatistics(0, 1, 0, 1, -1, 1, -2, 2),) * len(self.channels),
            foreground=(Foreground(45, 38, tuple(map(float, percentiles))),) * len(self.channels),
            files={},
        )
        cases = tuple(dataclasses.replace(case, key=str(number)) for number in range(self.cases))
        return Fingerprint(Description(self.channels, values, masks, file_ending=self.ending), cases)

    def job(self) -> dict[str, Any]:
        """Returns the data set for `benchmarks/nnunet_plans.py`, whose axes are z, y and x."""
        x, y, z = self.spacing
        return {
            "cases": self.cases,
            "channels": self.channels,
            "labels": {"background": 0} | {name: number for number, name in enumerate(self.labels, 1)},
            "ending": self.ending,
            "shape": self.kept[::-1],
            "spacing": (_OUT_OF_PLANE if self.ending == _PNG else z, y, x),
            "share": math.prod(self.kept) / math.prod(self.shape),
        }


_BODY = ("kidney_left", "kidney_right", *(f"organ {number}" for number in range(98)))
_TUMOR = ("edema", "core", "enhancing")
_MM = (1.0, 1.0, 1.0)
DATA_SETS = {
    "tiny MR": DataSet(260, (36, 50, 35), _MM, ("anterior", "posterior"), 0.05, ("MR",)),
    "anisotropic MR, 2 channels": DataSet(
        32, (320, 320, 20), (0.625, 0.625, 3.6), ("peripheral", "transition"), 0.03, ("T2", "ADC")
    ),
    "skull-stripped MR, 4 channels": DataSet(
        484, (240, 240, 155), _MM, _TUMOR, 0.01, ("FLAIR", "T1w", "T1gd", "T2w"), (138, 170, 138)
    ),
    "very unbalanced MR": DataSet(30, (182, 218, 182), _MM, ("lesion",), 1e-4, ("FLAIR",)),
    "large MR, few cases": DataSet(20, (320, 320, 115), (1.25, 1.25, 1.37), ("atrium",), 0.01, ("MR",)),
    "thick CT, one label": DataSet(41, (512, 512, 90), (0.79, 0.79, 5.0), ("spleen",), 0.005),
    "CT, two labels": DataSet(131, (512, 512, 432), (0.77, 0.77, 1.0), ("liver", "tumor"), 0.03),
    "huge CT": DataSet(24, (512, 512, 512), (0.7, 0.7, 0.7), ("airway",), 0.01),
    "CT, 100 labels with sides": DataSet(1000, (250, 190, 220), (1.5, 1.5, 1.5), _BODY, 0.3),
    "2-D, 3 channels": DataSet(200, (1000, 800, 1), _MM, ("cell",), 0.2, ("rgb_to_0_1",) * 3, ending=_PNG),
}


def planned(data: DataSet) -> JobPlan:
    """Returns our plan of a data set, on a host without space for turns."""
    device = HARDWARE["rtx4090"]
    device = dataclasses.replace(device, memory=_MEMORY / device.usable)
    with mock.patch.object(searching, "search_turns", return_value=(None, {})):
        return plan_fingerprint(data.fingerprint(), build_task, 1, device, progress=False)


def ours(plan: JobPlan) -> dict[str, str]:
    """Returns the properties of our plan as text."""
    size = plan.alternatives[0].fitted.variant.sizes
    dims = sum(n > 1 for n in size)
    angles = {angle for angle in np.ravel(plan.augmentation["rotation"].value).tolist() if angle}
    schemes = zip(plan.fingerprint.description.channels, plan.fingerprint.description.intensities, strict=True)
    kinds = [_CLIPPED if one.kind == WINDOW else plan.intensities.value.get(name, str(one)) for name, one in schemes]
    return {
        "voxels": f"{_sizes(plan.spacing.value[:dims])} mm",
        "input": f"{'whole' if plan.patch is None else 'patches of'} {_sizes(size[:dims])}",
        "filters": f"{plan.network['base_filters'].value} to {plan.network['max_filters'].value}",
        **_levels(plan.network["kernel_sizes"].value, plan.network["pool_sizes"].value, dims),
        "batch": str(plan.batch_size.value),
        "steps": f"{plan.num_steps.value:,}",
        "intensities": ", ".join(dict.fromkeys(kinds)),
        "flips": "".join(plan.augmentation["flips"].value),
        "rotation": f"{max(angles):g} degrees",
    }


def theirs(plan: dict[str, Any]) -> dict[str, str]:
    """Returns the same properties of a plan of nnU-Net, whose axes are z, y and x."""
    dims = len(plan["patch"])
    kinds = [
        _MASKED if masked else _SCHEMES[name] for name, masked in zip(plan["intensities"], plan["masked"], strict=True)
    ]
    kernels, pools = ([sizes[::-1] for sizes in plan[name]] for name in ("kernels", "pools"))
    low = ", and a network at low resolution" if plan["low_resolution"] else ""
    return {
        "voxels": f"{_sizes(plan['spacing'][::-1])} mm",
        "input": f"patches of {_sizes(plan['patch'][::-1])}{low}",
        "filters": f"{plan['filters'][0]} to {320 if dims == 3 else 512}",
        **_levels(kernels, pools, dims),
        "batch": str(plan["batch"]),
        "steps": "250,000",
        "intensities": ", ".join(dict.fromkeys(kinds)),
        "flips": "xyz"[: plan["flips"]],
        "rotation": f"{plan['rotation']} degrees",
    }


def row(name: str, stored: dict[str, Any]) -> list[str]:
    """Returns the row of a data set, from the stored plans of nnU-Net."""
    plan = planned(DATA_SETS[name])
    own, other = ours(plan), theirs(stored["plans"][name])
    same = [key for key in own if own[key] == other[key]]
    differ = [key for key in own if key not in same]
    fits = "whole volumes fit" if plan.patch is None else "the largest that fits, by our estimates"
    why = _WHY | {"input": fits, "batch": plan.batch_size.reason, "levels": plan.network["depth"].reason}
    equal, *others = (
        "; ".join(f"{key} {one[key]}" for key in keys) for one, keys in ((own, same), (other, differ), (own, differ))
    )
    return [name, equal, *others, "; ".join(f"{key}: {why[key]}" for key in differ)]


def table(names: Sequence[str] = tuple(DATA_SETS)) -> str:
    """Returns the table of some data sets in Markdown."""
    stored = json.loads(STORED.read_text())
    head = ["data set", "the same in both", f"nnU-Net {stored['version']}", "`plan`", "why"]
    return markdown(head, (row(name, stored) for name in names))


def _sizes(sizes: Sequence[float]) -> str:
    return " x ".join(f"{size:.4g}" for size in sizes)


def _levels(kernels: Sequence[Sequence[int]], pools: Sequence[Sequence[int]], dims: int) -> dict[str, str]:
    flat = sum(min(sizes[:dims]) == 1 for sizes in kernels)
    counts = [str(sum(pool[axis] == 2 for pool in pools)) for axis in range(dims)]
    return {"levels": f"{len(kernels)}{f', {flat} with flat kernels' if flat else ''}", "pools": ", ".join(counts)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nnunet_python", help="a Python with nnU-Net 2, whose plans are stored")
    python = parser.parse_args().nnunet_python
    if python:
        jobs = json.dumps({name: data.job() for name, data in DATA_SETS.items()})
        script = Path(__file__).with_name("nnunet_plans.py")
        STORED.write_text(
            subprocess.run([python, script], input=jobs, stdout=subprocess.PIPE, check=True, text=True).stdout
        )
    PAGE.write_text(with_table(PAGE.read_text(), NAME, table()))


if __name__ == "__main__":
    main()
