"""The preprocessing of nnU-Net as fields of a preprocessing file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError, NotSupportedError
from mtf_imaging.files.json_file import read_object
from mtf_imaging.networks.nnunet.files import checkpoints, setting, stated_configuration
from mtf_imaging.networks.nnunet.plans import find_plans, plans_named, read_configuration
from mtf_imaging.training.checkpoints.weight_files.pytorch import PyTorchFile

_DATA_SET = "dataset.json"
_STATED = ("channel_names", "modality", "labels", "regions_class_order", "file_ending")
_AXIS = {"R": "x", "L": "x", "A": "y", "P": "y", "S": "z", "I": "z"}
_CT, _Z_SCORE = "CTNormalization", "ZScoreNormalization"
_SCHEMES = {  # {normalization of nnU-Net: intensity scheme}
    _CT: "clip {percentile_00_5:.15g} {percentile_99_5:.15g} mean {mean:.15g} sd {std:.15g}",
    _Z_SCORE: "z-score",
    "RescaleTo01Normalization": "rescale_to_0_1",
    "RGBTo01Normalization": "rgb_to_0_1",
    "NoNormalization": "none",
}
_MASKED = "z-score of nonzero voxels"
# What is computed here; see `data.sampling.nnunet`.
_FUNCTION, _OPTIONS = "resample_data_or_seg_to_shape", {"is_seg": False, "order_z": 0, "force_separate_z": None}
_RESAMPLING = {
    "resampling_fn_data": _FUNCTION,
    "resampling_fn_data_kwargs": _OPTIONS | {"order": 3},
    "resampling_fn_probabilities": _FUNCTION,
    "resampling_fn_probabilities_kwargs": _OPTIONS | {"order": 1},
}
_REORIENTS = "NibabelIOWithReorient"  # the reader of nnU-Net that turns images


def preprocessing(path: str | Path, configuration: str | None = None, stored: str = "LPS") -> dict[str, Any]:
    """Returns the preprocessing of a model of nnU-Net 2 as fields of a preprocessing file.

    nnU-Net reads the axes of an image in the order in which the file stores them, whatever their directions, so a model
    expects the directions of its training images, which no file of the model states. The default are those of DICOM,
    which converters that keep the order of the voxels write: x to the left, y to the back (posterior), z to the head
    (superior).

    Args:
      path: the folder of the model, the folder of a fold, or a checkpoint; or a folder with only `plans.json` and
        `dataset.json`.
      configuration: name of the configuration, such as "3d_fullres"; None for that of the checkpoint or of the folder.
      stored: the directions in which the axes of the training images increase in their files, as nibabel's axis codes.

    Returns:
      The fields of nnU-Net's `dataset.json` that describe channels and labels, and:
        rules: "any", so that a model of the liver and its tumors is scored like all others.
        intensities: the intensity scheme of each channel.
        spacing: the voxel size in mm along x, y, z. A 2-D configuration has 0 along the first axis of its input, whose
          voxels keep their size.
        sliding_window: the patch of nnU-Net in voxels along x, y, z. A 2-D configuration has 1 along that axis.
        resolution: "any", because each volume keeps its field of view.
        resampling: "nnunet": the images are cropped to their nonzero voxels, normalized, and then resampled with
          splines, and the logits are resampled back.
        axes: the directions in which the axes of the network's input increase, as nibabel's axis codes.
        flips: the axes along which nnU-Net averages flipped windows, if there is a checkpoint.

    Raises:
      DataError: files are missing or malformed.
      NotSupportedError: the model needs the result of another model, or normalizes or resamples in an unknown way.
    """
    plans_path, found = find_plans(Path(path)), checkpoints(Path(path))
    file = PyTorchFile(str(found[0])) if found else None
    stated = stated_configuration(file) if file else None
    plans, own = read_configuration(plans_path, configuration or stated)
    described = read_object(plans_path.parent / _DATA_SET)
    if sorted(_AXIS.get(code, "") for code in stored) != ["x", "y", "z"]:
        raise DataError(f"stored = {stored!r}: this is not three axis codes. Fix: use, for instance, 'LPS' or 'RAS'.")
    with plans_named(plans_path):
        if own.get("previous_stage"):
            raise NotSupportedError(
                f"{plans_path}: this configuration needs the segmentation of '{own['previous_stage']}' as an input. "
                "Fix: use a model of another configuration."
            )
        for name, known in _RESAMPLING.items():
            if own.get(name, known) != known:
                raise NotSupportedError(
                    f"{plans_path}: {name} is {own[name]!r}, but only {known!r} is computed here. Fix: write a "
                    'preprocessing file with "resampling": "linear".'
                )
        codes = "RAS" if plans["image_reader_writer"] == _REORIENTS else stored
        axes = [codes[::-1][i] for i in plans["transpose_forward"]]
        names, planes = [_AXIS[code] for code in axes], 3 - len(own["patch_size"])  # 1 for a 2-D network
        fields = {
            **{key: described[key] for key in _STATED if key in described},
            "rules": "any",
            "intensities": _intensities(plans_path, plans, own),
            "spacing": _in_order(names, [0.0] * planes + [*map(float, own["spacing"])]),
            "sliding_window": _in_order(names, [1] * planes + [*map(int, own["patch_size"])]),
            "resolution": "any",
            "resampling": "nnunet",
            "axes": "".join(axes),
        }
        mirrored = setting(file, "inference_allowed_mirroring_axes") if file else None
        return fields | {"flips": sorted(names[planes + i] for i in mirrored)} if mirrored else fields


def _in_order(names: list[str], values: Any) -> list[Any]:
    """Returns the values of axes with some names, along x, y, z."""
    return [value for _, value in sorted(zip(names, values, strict=True))]


def _intensities(path: Path, plans: Mapping[str, Any], configuration: Mapping[str, Any]) -> list[str]:
    """Returns the intensity scheme of each channel."""
    names, masked = configuration["normalization_schemes"], configuration["use_mask_for_norm"]
    if unknown := [name for name in names if name not in _SCHEMES]:
        raise NotSupportedError(
            f"{path}: the normalization {unknown[0]} is unknown. Fix: use a model with {', '.join(_SCHEMES)}."
        )
    properties = plans.get("foreground_intensity_properties_per_channel", {})
    return [
        _MASKED if is_masked and name == _Z_SCORE else _SCHEMES[name].format(**properties.get(str(number), {}))
        for number, (name, is_masked) in enumerate(zip(names, masked, strict=True))
    ]
