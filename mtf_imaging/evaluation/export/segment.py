"""Segments a NIfTI file with the exported network in the folder of this program.

It needs TensorFlow, NumPy and nibabel, but not mtf_imaging. It repairs, reports and refuses the same file faults as
`mtf-imaging predict`, and then applies the same rules to the components of the labels, so both write the same labels.
The rules are the entry `cleanup` of `input.json`. If there are any, it also needs SciPy.

    python segment.py volume.nii.gz segmentation.nii.gz
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
from nibabel import orientations
from nibabel.filebasedimages import ImageFileError

AIR_HU, MAX_HU = -1024, 32767
NO_AIR_HU = -200  # a CT without lower values shows no air
LEAST_SPAN = 20  # HU; a CT with fractional values over a smaller range was normalized
LOWEST_WRAPPED = -4096  # the lowest HU that wide unsigned numbers can represent
WHOLE = 1e-3  # bound on the rounding error that scaling adds to integers
BONE_HU, BODY_HU = 250, -300
CLEARLY = 0.08  # the distance between the centers of the body and of bone, as a fraction of the body's depth
SHEAR = 0.1  # degrees
UNITS_MM = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 1e-3}  # by the code in xyzt_units
RAS = np.array([[0, 1], [1, 1], [2, 1]])
KINDS = ("largest", "min_volume", "inside")
CONNECTIVITY = {6: 1, 26: 3}  # {number of neighbors: argument of `ndimage.generate_binary_structure`}

Components = tuple[np.ndarray, Callable[[], Iterable[tuple[tuple[slice, ...], np.ndarray]]]]


class FileFault(Exception):
    """A file that cannot be segmented, or rules that cannot be applied."""


class Volume(NamedTuple):
    """An image in memory.

    Attributes:
      channels: the values of each channel, float32 `[i, j, k]` along the stored axes.
      affine: `[4, 4]`, stored voxel index -> mm in RAS+.
      image: the file.
    """

    channels: list[np.ndarray]
    affine: np.ndarray
    image: nibabel.Nifti1Image

    @property
    def orientation(self) -> np.ndarray:
        return orientations.io_orientation(self.affine)

    @property
    def spacing(self) -> np.ndarray:
        """Voxel size in mm along the canonical x, y and z."""
        inverse = orientations.inv_ornt_aff(self.orientation, self.channels[0].shape)
        return nibabel.affines.voxel_sizes(self.affine @ inverse)


def read_volume(path: Path, names: Sequence[str], spacing: Sequence[float] | None = None) -> Volume:
    """Reads an image and repairs its values and its header.

    Args:
      path: a NIfTI file.
      names: the names of its channels, which are along the fourth axis if there are several.
      spacing: the voxel size in mm along the stored axes, for a header that lacks it.

    Raises:
      FileFault: the file cannot be used.
    """
    try:
        image = nibabel.load(path)
    except (OSError, ImageFileError, ValueError) as error:
        raise FileFault(f"{path}: cannot be read as NIfTI ({error}). Fix: give a .nii or .nii.gz file.") from error
    if not isinstance(image, nibabel.Nifti1Image):
        raise FileFault(f"{path}: is not NIfTI. Fix: give a .nii or .nii.gz file.")
    stored = _stored_channels(path, image, len(names))
    scale = image.dataobj.slope, image.dataobj.inter
    channels = [_values(path, numbers, name, scale) for numbers, name in zip(stored, names, strict=True)]
    unit = UNITS_MM.get(int(image.header["xyzt_units"]) & 7, 1.0)
    own = np.array(image.header.get_best_affine(), np.float64)
    affine = own.copy()
    affine[:3] *= unit
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    if not np.isfinite(affine).all() or min(lengths) == 0 or abs(np.linalg.det(affine[:3, :3] / lengths)) < 1e-9:
        raise FileFault(f"{path}: the affine {own[:3].tolist()} does not define the axes. Fix: repair the header.")
    has_codes = image.header["sform_code"] or image.header["qform_code"]
    if has_codes and not np.allclose(own, np.eye(4)):
        _check_shear(path, affine)
    else:
        affine = _inferred_affine(path, image, unit, spacing, dict(zip(names, channels, strict=True)))
    return Volume(channels, affine, image)


def _stored_channels(path: Path, image: nibabel.Nifti1Image, count: int) -> list[np.ndarray]:
    """Returns the stored numbers of each channel, `[i, j, k]`."""
    try:
        numbers = np.asanyarray(image.dataobj.get_unscaled())
    except (OSError, EOFError, ValueError) as error:
        raise FileFault(f"{path}: cannot be read: it is damaged ({error}). Fix: fetch the file again.") from error
    sizes = [size for size in numbers.shape[3:] if size != 1] or [1]
    if numbers.ndim < 3 or 0 in numbers.shape or len(sizes) > 1 or sizes[0] != count:
        what = "a single 3-D volume" if count == 1 else f"a volume with {count} channels along its fourth axis"
        raise FileFault(f"{path}: has the shape {numbers.shape}, but the network needs {what}. Fix: give {what}.")
    stacked = numbers.reshape(*numbers.shape[:3], count)
    return [stacked[..., number] for number in range(count)]


def _values(path: Path, numbers: np.ndarray, name: str, scale: tuple[float, float]) -> np.ndarray:
    """Returns the values of a channel, float32: HU for a CT, otherwise finite numbers."""
    is_scaled = scale != (1.0, 0.0)
    if name.casefold() == "ct":
        return _hounsfield(path, numbers, scale, is_scaled)
    with np.errstate(over="ignore"):
        values = (numbers * np.float64(scale[0]) + scale[1] if is_scaled else numbers).astype(np.float32)
    faults = ~np.isfinite(values)
    if faults.all():
        raise FileFault(f"{path}: all voxels of {name} are NaN or infinite. Fix: fetch the file again.")
    if faults.any():
        _warn(f"{path}: {faults.sum()} voxels of {name} are NaN or infinite; replaced by 0.")
        values[faults] = 0
    if values.min() == values.max():
        _warn(f"{path}: {name} is {values.min():g} in every voxel, so it shows nothing.")
    return values


def _hounsfield(path: Path, numbers: np.ndarray, scale: tuple[float, float], is_scaled: bool) -> np.ndarray:
    """Returns the HU of stored numbers, float32, at least -1024."""
    values = numbers
    if is_scaled:
        values = numbers * np.float64(scale[0]) + scale[1]
    elif numbers.dtype.kind in "iu" and numbers.dtype.itemsize > 1:
        values = _unwrapped(path, numbers)
    wide = values.astype(np.float64)
    is_nan = np.isnan(wide)
    if is_nan.all():
        raise FileFault(f"{path}: all voxels are NaN. Fix: fetch the file again.")
    wide[is_nan] = AIR_HU
    below, above = np.count_nonzero(wide < AIR_HU), np.count_nonzero(wide > MAX_HU)
    if above > wide.size // 2:
        raise FileFault(f"{path}: most voxels are above {MAX_HU}, so this is not a CT in HU. Fix: give a CT in HU.")
    wide = np.clip(wide, AIR_HU, MAX_HU)
    hu = np.rint(wide)
    is_fraction = np.abs(wide - hu) > WHOLE
    counted = wide[is_fraction] if is_fraction.sum() > wide.size // 10 else wide[~is_nan]
    if is_fraction.any() and counted.max() - counted.min() < LEAST_SPAN:
        raise FileFault(
            f"{path}: fractional values range from {counted.min():.3g} to {counted.max():.3g}; the image was probably "
            "normalized. Fix: give the original CT."
        )
    for count, what, bound in (
        (is_nan.sum(), "NaN", AIR_HU),
        (below, f"below {AIR_HU} HU", AIR_HU),
        (above, f"above {MAX_HU} HU", MAX_HU),
    ):
        if count:
            _warn(f"{path}: {count} voxels are {what}; replaced by {bound} HU.")
    if hu.min() == hu.max():
        _warn(f"{path}: is {hu.min():g} HU in every voxel, so it shows nothing.")
    elif hu.min() > NO_AIR_HU:
        _warn(f"{path}: the lowest value is {hu.min():g} HU, but air is about -1000 HU; values are read unchanged.")
    return hu.astype(np.float32)


def _unwrapped(path: Path, numbers: np.ndarray) -> np.ndarray:
    """Returns integers without the overflow of negative HU: 64512 is -1024."""
    native = numbers.astype(numbers.dtype.newbyteorder("="))
    values = native.view(f"i{native.dtype.itemsize}").astype(np.int64)
    count = np.count_nonzero(values < 0) if native.dtype.kind == "u" else 0
    for bits in (16, 32) if native.dtype.itemsize > 2 else ():
        wrapped = (values >= (1 << bits) + LOWEST_WRAPPED) & (values < 1 << bits)
        count += np.count_nonzero(wrapped)
        values[wrapped] -= 1 << bits
    if count:
        _warn(f"{path}: {count} unsigned voxels are above {MAX_HU}; they are read as negative HU.")
    return values


def _check_shear(path: Path, affine: np.ndarray) -> None:
    """Raises FileFault if the axes of the voxels are not perpendicular."""
    axes = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    angles = [np.degrees(np.arcsin(np.clip(a @ b, -1, 1))) for a, b in itertools.combinations(axes.T, 2)]
    worst = max(angles, key=abs)
    if abs(worst) > SHEAR:
        raise FileFault(
            f"{path}: its affine is sheared: the angle between two voxel axes is {90 - worst:.2f} degrees instead of "
            "90. Fix: resample the image to a grid with perpendicular axes. If its qform is right, set sform_code to 0."
        )


def _inferred_affine(
    path: Path,
    image: nibabel.Nifti1Image,
    unit: float,
    spacing: Sequence[float] | None,
    channels: dict[str, np.ndarray],
) -> np.ndarray:
    """Returns the affine of a file whose header lacks one: the spine of a CT determines the orientation."""
    turned = any(_y_points_back(values) for name, values in channels.items() if name.casefold() == "ct")
    pixdim = [abs(float(size)) * unit for size in image.header["pixdim"][1:4]]
    sizes = spacing or [mm if np.isfinite(mm) and mm > 0 else 1.0 for mm in pixdim]
    axes = "LPS, because the spine shows that the second axis points to the back" if turned else "RAS"
    size = " x ".join(f"{mm:g}" for mm in sizes)
    where = "--spacing" if spacing else "its pixdim, which may be wrong; --spacing gives another size"
    _warn(f"{path}: its header does not define the axes; read as {axes}, with voxels of {size} mm, from {where}.")
    return np.diag([*np.multiply((-1, -1, 1) if turned else (1, 1, 1), sizes), 1.0])


def _y_points_back(hu: np.ndarray) -> bool:
    """Returns whether bone, which is mostly the spine, is clearly nearer to the high end of the second axis."""
    body, bone = (np.count_nonzero(hu > level, axis=(0, 2)) for level in (BODY_HU, BONE_HU))
    if not bone.any():
        return False
    rows = np.arange(len(bone))
    depth = np.ptp(np.flatnonzero(body)) + 1
    return bool(np.average(rows, weights=bone) - np.average(rows, weights=body) > CLEARLY * depth)


def apply_rules(labels: np.ndarray, rules: Sequence[Mapping[str, Any]], spacing: Sequence[float]) -> np.ndarray:
    """Applies rules in their order, and reports the number of removed voxels; see `apply_rule`."""
    for rule in rules:
        remaining = apply_rule(labels, rule, spacing)
        count = np.count_nonzero(labels) - np.count_nonzero(remaining)
        if count:
            _warn(f"the rule {rule['rule']} removed {count} voxels, {count * math.prod(spacing):.0f} mm^3.")
        labels = remaining
    return labels


def whole_components(labels: np.ndarray, values: Collection[int], neighbors: int) -> Components:
    """Finds the components of the voxels with one of several labels, where a voxel has 6 or 26 neighbors.

    Returns:
      The number of voxels in each component, `[components + 1]`; they are numbered from 1 in the order of their first
      voxels. And a function that returns pairs of a region and the component number, or 0, of each voxel in it.
    """
    from scipy import ndimage

    structure = ndimage.generate_binary_structure(3, CONNECTIVITY[neighbors])
    numbers, count = ndimage.label(is_one_of(labels, values), structure)
    everything = tuple(slice(0, size) for size in labels.shape)
    return np.bincount(numbers.ravel(), minlength=count + 1), lambda: [(everything, numbers)]


def apply_rule(
    labels: Any,
    rule: Mapping[str, Any],
    spacing: Sequence[float],
    find_components: Callable[[Any, Collection[int], int], Components] = whole_components,
) -> Any:
    """Sets the voxels of the components that a rule removes to background.

    Args:
      labels: uint8 `[x, y, z]`, along the canonical axes; an array, or another volume that can be read in parts.
      rule: it is for the components of the voxels with one of its `labels`, where a voxel has 6 or 26 `neighbors`. Its
        `kind` is "largest", which keeps the largest component, the first one of equal sizes; "min_volume", which keeps
        components of at least `volume_ml`; or "inside", which keeps components with a voxel that neighbors one of the
        `container_labels`.
      spacing: voxel size in mm.
      find_components: a function like `whole_components`.

    Returns:
      The remaining labels, of the same type; `labels` itself if nothing is removed.
    """
    sizes, parts = find_components(labels, rule["labels"], rule["neighbors"])
    touches = np.zeros(len(sizes), bool)
    if rule["kind"] == "inside":
        for region, numbers in parts():
            touches[numbers[near(labels, region, rule["container_labels"], rule["neighbors"])]] = True
    keeps = kept_components(rule, sizes[1:] * voxel_ml(spacing), touches[1:])
    if keeps.all():
        return labels
    stays = np.concatenate([[True], keeps])  # number 0 is everything except the components
    result = labels.copy()
    for region, numbers in parts():
        result[region] = np.where(stays[numbers], labels[region], 0)
    return result


def kept_components(rule: Mapping[str, Any], volumes: np.ndarray, touches: np.ndarray) -> np.ndarray:
    """Returns a mask of the components that a rule keeps, bool `[components]`.

    Args:
      rule: see `apply_rule`.
      volumes: `[components]`, in mL, in the order of the first voxels.
      touches: bool `[components]`, whether each component has a voxel that neighbors one of the `container_labels`.
    """
    if rule["kind"] == "largest":
        return np.arange(len(volumes)) == (np.argmax(volumes) if len(volumes) else 0)
    return touches if rule["kind"] == "inside" else volumes >= rule["volume_ml"]


def near(labels: Any, region: tuple[slice, ...], values: Collection[int], neighbors: int) -> np.ndarray:
    """Returns a mask of the voxels in a region that have, or neighbor, one of several labels, bool."""
    from scipy import ndimage

    wide = tuple(slice(max(at.start - 1, 0), min(at.stop + 1, n)) for at, n in zip(region, labels.shape, strict=True))
    structure = ndimage.generate_binary_structure(3, CONNECTIVITY[neighbors])
    grown = ndimage.binary_dilation(is_one_of(labels[wide], values), structure)
    return grown[tuple(slice(at.start - w.start, at.stop - w.start) for at, w in zip(region, wide, strict=True))]


def is_one_of(labels: np.ndarray, values: Collection[int]) -> np.ndarray:
    """Returns a mask of the voxels with one of several labels, bool of the same shape."""
    mask = np.zeros(labels.shape, bool)
    for value in values:
        mask |= labels == value
    return mask


def voxel_ml(spacing: Sequence[float]) -> float:
    """Returns the volume of a voxel in mL, given its size in mm."""
    return math.prod(spacing) / 1000


def segment(model_dir: Path, volume: Volume, rules: Sequence[Mapping[str, Any]] = ()) -> nibabel.Nifti1Image:
    """Returns the labels of a volume, uint8, along the axes of its file, after applying some rules."""
    import tensorflow as tf

    order = volume.orientation
    canonical = [orientations.apply_orientation(values, order) for values in volume.channels]
    image = canonical[0] if len(canonical) == 1 else np.stack(canonical, axis=-1)
    call = tf.saved_model.load(str(model_dir)).signatures["volume"]
    inputs = {"image": tf.constant(np.ascontiguousarray(image))}
    if "spacing" in call.structured_input_signature[1]:
        inputs["spacing"] = tf.constant(volume.spacing, tf.float64)
    labels = apply_rules(call(**inputs)["labels"].numpy(), rules, volume.spacing)
    stored = orientations.apply_orientation(labels, orientations.ornt_transform(RAS, order))
    header = volume.image.header.copy()
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
    except FileFault as fault:
        print(f"segment.py: {fault}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"{own.model}: is not the folder of an exported network for volumes ({error!r})")
    partial = own.output.with_name(f".partial-{own.output.name}")
    nibabel.save(segment(own.model, volume, rules), partial)
    partial.rename(own.output)
    return 0


def _check_rules(rules: Sequence[Mapping[str, Any]]) -> None:
    """Raises FileFault if rules cannot be applied."""
    for rule in rules:
        if rule["kind"] not in KINDS:
            raise FileFault(
                f"the rule {rule['rule']} has the kind '{rule['kind']}', but this program knows {', '.join(KINDS)}. "
                "Fix: use the segment.py of the model, or write labels without rules with --no_cleanup."
            )
    if rules and find_spec("scipy") is None:
        raise FileFault(
            f"the rules {', '.join(rule['rule'] for rule in rules)} need SciPy, which is not installed. Fix: run pip "
            "install scipy, or write labels without rules with --no_cleanup."
        )


def _warn(text: str) -> None:
    print(f"segment.py: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
