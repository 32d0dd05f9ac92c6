"""Images and masks with correct headers and faulty values."""

from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np

from benchmarks.reliability.files import nifti
from benchmarks.reliability.files.nifti import values, voxel
from benchmarks.reliability.inputs.bad_input import REFUSED, BadInput, Outcome, Refused, Right, Warned, damaged
from benchmarks.reliability.inputs.headers import IMAGE, MASK
from benchmarks.reliability.inputs.lines import CONVERT, EVALUATE, PLAN, PREDICT, SCORE, SCORE_PREDICTION, on

Edit = Callable[[Path], object]
_NAMED = Warned(r"volume-0\.nii\.gz")


def _crop(old: np.ndarray) -> np.ndarray:
    return old[1:]


def _lost_affine(path: Path) -> None:
    nifti.write(path, np.asarray(nibabel.load(path).dataobj), np.eye(4))


_BOTH = ("convert", "predict")
# {name: (change to the image, commands, outcomes)}
_IMAGES: dict[str, tuple[Edit, tuple[str, ...], tuple[Outcome, ...]]] = {
    "a NaN": (voxel(np.nan), _BOTH, (_NAMED, REFUSED)),
    "an infinite value": (voxel(np.inf), _BOTH, (_NAMED, REFUSED)),
    "NaN only": (values(lambda old: np.full(old.shape, np.nan, np.float32)), _BOTH, (_NAMED, REFUSED)),
    "scl_slope of NaN": (nifti.header(scl_slope=np.nan), _BOTH, (Right(), _NAMED, REFUSED)),
    "scl_slope of infinity": (nifti.header(scl_slope=np.inf), _BOTH, (Right(), _NAMED, REFUSED)),
    "scl_inter of NaN": (nifti.header(scl_slope=1.0, scl_inter=np.nan), _BOTH, (Right(), _NAMED, REFUSED)),
    "scl_slope of 1e30": (nifti.header(scl_slope=1e30, scl_inter=0.0), _BOTH, (_NAMED, REFUSED)),
    "all voxels have the same value": (
        values(lambda old: np.full(old.shape, 40, np.int16)),
        ("convert", "predict", "evaluate", "plan"),
        (_NAMED, REFUSED),
    ),
    "zeros only": (values(np.zeros_like), _BOTH, (_NAMED, REFUSED)),
    "HU wrapped into uint16": (values(lambda old: old.astype(np.uint16)), _BOTH, (_NAMED, REFUSED)),
    "HU wrapped into uint32": (values(lambda old: old.astype(np.uint32)), _BOTH, (_NAMED, REFUSED)),
    "numbers without the intercept of 1024": (values(lambda old: old + 1024), _BOTH, (_NAMED, REFUSED)),
    "HU in units of 10": (values(lambda old: (old * 10).astype(np.int32)), _BOTH, (_NAMED, REFUSED)),
    "colors": (
        values(lambda old: np.zeros(old.shape, [("R", "u1"), ("G", "u1"), ("B", "u1")])),
        _BOTH,
        (REFUSED,),
    ),
    "four dimensions": (values(lambda old: np.stack([old, old], -1)), _BOTH, (REFUSED,)),
    "one plane": (values(lambda old: old[:, :, :1]), ("predict",), (Right(), REFUSED)),
    "a lost affine": (_lost_affine, _BOTH, (_NAMED, REFUSED)),
}
_LINES = {
    "convert": on(CONVERT, "cases"),
    "predict": on(PREDICT, f"cases/{IMAGE}") + ".nii.gz",
    "evaluate": on(EVALUATE, "cases"),
    "plan": on(PLAN, "cases"),
}
_MASKS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "a label of 0.5": (voxel(0.5), (REFUSED,)),
    "a label of NaN": (voxel(np.nan), (REFUSED,)),
    "an infinite label": (voxel(np.inf), (REFUSED,)),
    "a negative label": (voxel(-1), (REFUSED,)),
    "a label that is not described": (voxel(3), (REFUSED,)),
    "labels 0 and 255": (values(lambda old: np.where(old > 0, 255, 0).astype(np.uint8)), (REFUSED,)),
    "labels 0 and 1000": (values(lambda old: np.where(old > 0, 1000, 0).astype(np.int16)), (REFUSED,)),
    "labels of another shape": (values(_crop), (REFUSED,)),
    "an image in place of the labels": (values(lambda old: old.astype(np.int16) * 500 - 300), (REFUSED,)),
    "float labels with whole numbers": (values(lambda old: old.astype(np.float64)), (Right(),)),
    "labels in int64": (values(lambda old: old.astype(np.int64)), (Right(), REFUSED)),
    "no voxel of any label": (values(np.zeros_like), (Right(), Warned("segmentation-0"))),
    "a lost affine": (_lost_affine, (Warned(r"segmentation-0\.nii\.gz"), REFUSED)),
}
INPUTS = [
    BadInput("values", f"image, {name}", _LINES[command], damaged("cases", IMAGE, edit), outcomes, f"cases/{IMAGE}")
    for name, (edit, names, outcomes) in _IMAGES.items()
    for command in names
]
for what, folder, line in (
    ("mask", "cases", on(CONVERT, "cases")),
    ("mask", "cases", on(EVALUATE, "cases")),
    ("reference", "cases", on(SCORE, "cases")),
    ("prediction", "predictions", on(SCORE_PREDICTION, "predictions")),
):
    INPUTS += [
        BadInput("values", f"{what}, {name}", line, damaged(folder, MASK, edit), outcomes, f"{folder}/{MASK}")
        for name, (edit, outcomes) in _MASKS.items()
    ]
INPUTS += [
    BadInput(
        "values",
        "an MR for a network that was trained on CTs",
        line,
        lambda good, here: None,
        (Refused("MR"),),
    )
    for line in (
        "evaluate --model_dir {good}/run --input_dir {good}/nnunet --output_dir {here}/out",
        "train --data_dir {good}/records --eval_dir {good}/described --model_dir {here}/run --gin_file unet3d_demo",
    )
]
