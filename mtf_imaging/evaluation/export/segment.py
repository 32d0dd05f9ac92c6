"""Segments a NIfTI file with the exported network in the folder of this program.

It needs TensorFlow, NumPy and nibabel, but not mtf_imaging. It repairs, reports and refuses the same file faults as
`mtf-imaging predict`, and then applies the same rules to the components of the labels, so both write the same labels.
The rules are the entry `cleanup` of `input.json`. If there are any, it also needs SciPy.

    python segment.py volume.nii.gz segmentation.nii.gz
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError

from mtf_imaging.data.images.geometry import Geometry, affine_in_mm, check_orthogonal, unit_mm
from mtf_imaging.data.images.orientation import y_points_back
from mtf_imaging.data.images.repairs import FiniteRepair, HounsfieldRepair
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.modality import is_ct
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.rule_kinds import KINDS, apply_rule, voxel_ml
from mtf_imaging.files.reading import faults_named


class Volume(NamedTuple):
    """An image in memory.

    Attributes:
      channels: the values of each channel, float32 `[i, j, k]` along the stored axes.
      geometry: the geometry of the file.
      image: the file.
    """

    channels: list[np.ndarray]
    geometry: Geometry
    image: nibabel.Nifti1Image


def read_volume(path: Path, names: Sequence[str], spacing: Sequence[float] | None = None) -> Volume:
    """Reads an image and repairs its values and its header.

    Args:
      path: a NIfTI file.
      names: the names of its channels, which are along the fourth axis if there are several.
      spacing: the voxel size in mm along the stored axes, for a header that lacks it.

    Raises:
      DataError: the file cannot be used.
    """
    try:
        image = nibabel.load(path)
    except (OSError, ImageFileError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as NIfTI ({error}). Fix: give a .nii or .nii.gz file.") from error
    if not isinstance(image, nibabel.Nifti1Image):
        raise DataError(f"{path}: is not NIfTI. Fix: give a .nii or .nii.gz file.")
    stored = _stored_channels(path, image, len(names))
    channels = [_values(path, image, numbers, name) for numbers, name in zip(stored, names, strict=True)]
    own, affine = image.header.get_best_affine(), affine_in_mm(image.header)
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    if not np.isfinite(affine).all() or min(lengths) == 0 or abs(np.linalg.det(affine[:3, :3] / lengths)) < 1e-9:
        raise DataError(f"{path}: the affine {own[:3].tolist()} does not define the axes. Fix: repair the header.")
    has_codes = image.header["sform_code"] or image.header["qform_code"]
    if has_codes and not np.allclose(own, np.eye(4)):
        with faults_named(path):
            check_orthogonal(affine)
    else:
        affine = _inferred_affine(path, image.header, spacing, dict(zip(names, channels, strict=True)))
    return Volume(channels, Geometry(image.header, affine), image)


def _stored_channels(path: Path, image: nibabel.Nifti1Image, count: int) -> list[np.ndarray]:
    """Returns the stored numbers of each channel, `[i, j, k]`."""
    try:
        numbers = np.asanyarray(image.dataobj.get_unscaled())
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: it is damaged ({error}). Fix: fetch the file again.") from error
    sizes = [size for size in numbers.shape[3:] if size != 1] or [1]
    if numbers.ndim < 3 or 0 in numbers.shape or len(sizes) > 1 or sizes[0] != count:
        what = "a single 3-D volume" if count == 1 else f"a volume with {count} channels along its fourth axis"
        raise DataError(f"{path}: has the shape {numbers.shape}, but the network needs {what}. Fix: give {what}.")
    stacked = numbers.reshape(*numbers.shape[:3], count)
    return [stacked[..., number] for number in range(count)]


def _values(path: Path, image: nibabel.Nifti1Image, numbers: np.ndarray, name: str) -> np.ndarray:
    """Returns the repaired values of the channel with this name, float32: HU for a CT."""
    scale = image.dataobj.slope, image.dataobj.inter
    stored = Stored(path, numbers.shape, numbers.dtype, Planes, scale)
    repair = HounsfieldRepair(stored) if is_ct(name) else FiniteRepair(stored, name)
    values = repair(numbers)
    with faults_named(path):
        repair.check()
    return values.astype(np.float32)


def _inferred_affine(
    path: Path, header: nibabel.Nifti1Header, spacing: Sequence[float] | None, channels: dict[str, np.ndarray]
) -> np.ndarray:
    """Returns the affine of a file whose header lacks one: the spine of a CT determines the orientation."""
    turned = any(y_points_back(values) for name, values in channels.items() if is_ct(name))
    pixdim = [abs(float(size)) * (unit_mm(header) or 1.0) for size in header["pixdim"][1:4]]
    sizes = spacing or [mm if np.isfinite(mm) and mm > 0 else 1.0 for mm in pixdim]
    axes = "LPS, because the spine shows that the second axis points to the back" if turned else "RAS"
    size = " x ".join(f"{mm:g}" for mm in sizes)
    where = "--spacing" if spacing else "its pixdim, which may be wrong; --spacing gives another size"
    warn_once(f"{path}: its header does not define the axes; read as {axes}, with voxels of {size} mm, from {where}.")
    return np.diag([*np.multiply((-1, -1, 1) if turned else (1, 1, 1), sizes), 1.0])


def apply_rules(labels: np.ndarray, rules: Sequence[Mapping[str, Any]], spacing: Sequence[float]) -> np.ndarray:
    """Applies rules in their order, and reports the number of removed voxels; see `apply_rule`."""
    for rule in rules:
        remaining = apply_rule(labels, rule, spacing)
        count = np.count_nonzero(labels) - np.count_nonzero(remaining)
        if count:
            volume = 1000 * count * voxel_ml(spacing)
            warn_once(f"the rule {rule['rule']} removed {count} voxels, {volume:.0f} mm^3.")
        labels = remaining
    return labels


def segment(model_dir: Path, volume: Volume, rules: Sequence[Mapping[str, Any]] = ()) -> nibabel.Nifti1Image:
    """Returns the labels of a volume, uint8, along the axes of its file, after applying some rules."""
    import tensorflow as tf

    geometry = volume.geometry
    canonical = [geometry.to_canonical(values) for values in volume.channels]
    image = canonical[0] if len(canonical) == 1 else np.stack(canonical, axis=-1)
    call = tf.saved_model.load(str(model_dir)).signatures["volume"]
    inputs = {"image": tf.constant(np.ascontiguousarray(image))}
    if "spacing" in call.structured_input_signature[1]:
        inputs["spacing"] = tf.constant(geometry.spacing, tf.float64)
    stored = geometry.to_stored(apply_rules(call(**inputs)["labels"].numpy(), rules, geometry.spacing))
    header = geometry.header.copy()
    header.set_data_dtype(np.uint8)
    header.set_data_shape(stored.shape)
    header["cal_min"] = header["cal_max"] = 0
    return type(volume.image)(np.ascontiguousarray(stored), header.get_best_affine(), header)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description="Segments a NIfTI file with an exported network.")
    parser.add_argument("model", nargs="?", type=Path, default=Path(__file__).parent, help="default: this folder")
    parser.add_argument("volume", type=Path, help="the image, a .nii or .nii.gz file")
    parser.add_argument("output", type=Path, help="the segmentation to write, which must not exist")
    parser.add_argument("--spacing", help="voxel size in mm, such as 0.8,0.8,2, for a header that lacks its axes")
    parser.add_argument("--no_cleanup", action="store_true", help="do not apply the rules for components")
    own = parser.parse_args(arguments)
    try:
        spacing = None if own.spacing is None else [float(mm) for mm in own.spacing.split(",")]
        if spacing is not None and not (len(spacing) == 3 and all(0 < mm < np.inf for mm in spacing)):
            raise ValueError
    except ValueError:
        parser.error(f"--spacing {own.spacing}: is not three positive sizes in mm, such as 0.8,0.8,2")
    if own.output.exists() or not own.output.name.endswith((".nii", ".nii.gz")):
        parser.error(f"{own.output}: the segmentation must be a new .nii or .nii.gz file")
    try:
        card = json.loads((own.model / "input.json").read_text())
        rules = [] if own.no_cleanup else card.get("cleanup") or []
        _check_rules(rules)
        volume = read_volume(own.volume, card["channels"], spacing)
    except DataError as fault:
        print(f"segment.py: {fault}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"{own.model}: is not the folder of an exported network for volumes ({error!r})")
    partial = own.output.with_name(f".partial-{own.output.name}")
    nibabel.save(segment(own.model, volume, rules), partial)
    partial.rename(own.output)
    return 0


def _check_rules(rules: Sequence[Mapping[str, Any]]) -> None:
    """Raises DataError if rules cannot be applied."""
    for rule in rules:
        if rule["kind"] not in KINDS:
            raise DataError(
                f"the rule {rule['rule']} has the kind '{rule['kind']}', but this program knows {', '.join(KINDS)}. "
                "Fix: use the segment.py of the model, or write labels without rules with --no_cleanup."
            )
    if rules and find_spec("scipy") is None:
        raise DataError(
            f"the rules {', '.join(rule['rule'] for rule in rules)} need SciPy, which is not installed. Fix: run pip "
            "install scipy, or write labels without rules with --no_cleanup."
        )


def warn_once(message: str, settings: tuple[str, ...] = ()) -> None:
    """Prints a warning. In the program of a model, it replaces the function that logs the warnings of `predict`."""
    print(f"segment.py: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
