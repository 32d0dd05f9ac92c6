"""The file formats of phantoms: the file names of a case and the `dataset.json` of a folder."""

import json
from collections.abc import Mapping, Sequence

import nibabel
import numpy as np

from mtf_imaging.data.description.dataset_json import FILE
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.description_fields import as_fields

LITS_FILES, NNUNET, DECATHLON = "lits", "nnunet", "decathlon"
FILE_FORMATS = (LITS_FILES, NNUNET, DECATHLON)
PATTERNS = {  # of the files of cases
    LITS_FILES: ("volume-*.nii*", "segmentation-*.nii*"),
    **dict.fromkeys((NNUNET, DECATHLON), ("imagesTr/*.nii*", "labelsTr/*.nii*")),
}

Image = nibabel.Nifti1Image
_MARK = b"mtf_imaging phantom"  # the description in the header of each file


def case_key(file_format: str, organ: str, number: int) -> str:
    """Returns the name of a case in records and metrics: `7` in LiTS, `brain_007` in the other formats."""
    return str(number) if file_format == LITS_FILES else f"{organ}_{number:03d}"


def case_files(file_format: str, key: str, channels: Sequence[Image], labels: Image) -> dict[str, Image]:
    """Returns the files of a case, {path in the folder: image}.

    Args:
      file_format: "lits", "nnunet" or "decathlon".
      key: the case key.
      channels: the image of each channel. LiTS has one.
      labels: the segmentation.
    """
    paths = case_paths(file_format, key, len(channels))
    images = channels if file_format != DECATHLON or len(channels) == 1 else [_stack(channels)]
    return dict(zip(paths, [*images, labels], strict=True))


def case_paths(file_format: str, key: str, num_channels: int) -> list[str]:
    """Returns the file paths of a case within its folder, the segmentation last."""
    if file_format == LITS_FILES:
        return [f"volume-{key}.nii.gz", f"segmentation-{key}.nii.gz"]
    images = [f"{key}_{channel:04d}" for channel in range(num_channels)] if file_format == NNUNET else [key]
    return [f"imagesTr/{name}.nii.gz" for name in images] + [f"labelsTr/{key}.nii.gz"]


def description_files(file_format: str, description: Description, organ: str, keys: Sequence[str]) -> dict[str, bytes]:
    """Returns the files that describe a folder of cases, {path in the folder: contents}; LiTS has none."""
    if file_format == LITS_FILES:
        return {}
    fields = (_nnunet_fields if file_format == NNUNET else _decathlon_fields)(description, keys)
    named = {"name": f"Phantoms of {organ} tumors", "description": "Synthetic images and labels"}
    return {FILE: (json.dumps({**named, **fields}, indent=1) + "\n").encode()}


def _nnunet_fields(description: Description, keys: Sequence[str]) -> Mapping:
    return {**as_fields(description), "numTraining": len(keys)}


def _decathlon_fields(description: Description, keys: Sequence[str]) -> Mapping:
    """The Decathlon format does not support regions, so the labels are mutually exclusive."""
    labels = {"0": "background"} | {str(value): name for name, value in description.labels.items()}
    images = [case_paths(DECATHLON, key, len(description.channels)) for key in keys]
    return {
        "tensorImageSize": "4D" if len(description.channels) > 1 else "3D",
        "modality": {str(number): name for number, name in enumerate(description.channels)},
        "labels": labels,
        "numTraining": len(keys),
        "numTest": 0,
        "training": [{"image": f"./{image}", "label": f"./{label}"} for image, label in images],
        "test": [],
        "intensities": [str(intensity) for intensity in description.intensities],
    }


def _stack(channels: Sequence[Image]) -> Image:
    """Returns one 4-D image, with the channels last."""
    image = Image(np.stack([np.asarray(channel.dataobj) for channel in channels], -1), channels[0].affine)
    return mark(image)


def mark(image: Image) -> Image:
    """Sets the units and the description in the header of a phantom, and returns the phantom."""
    image.header.set_xyzt_units("mm")
    image.header["descrip"] = _MARK
    return image
