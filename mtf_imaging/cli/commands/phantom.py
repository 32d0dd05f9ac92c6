"""`mtf-imaging phantom`: writes synthetic cases in the LiTS formats, nnU-Net and the Decathlon, and photos.

Photos have label images, or the boxes and masks of objects.
"""

import shlex

from absl import flags

from mtf_imaging.errors import ConfigError
from mtf_imaging.files.run_folder import check_no_run
from mtf_imaging.settings.setting import Settings, setting, settings

_SCENES, _OBJECTS = "scenes", "objects"
_JOBS = {_SCENES: "deeplab_scenes", _OBJECTS: "retinanet_objects"}


@settings
class _Flags(Settings):
    """The settings with flags in this command.

    Attributes:
      output_dir: folder for the cases or photos.
      num_cases: number of cases or photos to write.
      seed: seed of the random numbers; the same seed writes the same bytes.
      kind: large_lesions: 0 to 6 lesions per case, most of them 24 to 30 mm wide, in about 113 x 113 x 60 voxels.
        small_lesions: 8 to 14 lesions per case, two in five of them below 10 mm, in voxels half as wide. brain: a tumor
        with edema, necrosis and an enhancing rim in two channels, T1gd and FLAIR, in about 108 x 122 x 99 voxels.
        scenes: photos of overlapping textured shapes, 112 to 160 pixels a side, in the PASCAL VOC folder structure;
        every fourth is in val.txt. objects: such photos with the boxes and masks of 1 to 6 shapes, crowd regions and
        empty photos, in the COCO layout; every fourth is in val.
      format: lits: volume-N.nii.gz and segmentation-N.nii.gz, the default for CTs. nnunet: imagesTr, with a file for
        each channel, labelsTr and dataset.json, the default for brains. decathlon: the same folders, with all channels
        in one file. Not for scenes and objects.
    """

    output_dir: str = setting(flag=True)
    num_cases: int = setting(default=12, least=1, flag=True)
    seed: int = setting(default=0, least=0, flag=True)
    kind: str = setting(
        default="large_lesions",
        choices=("large_lesions", "small_lesions", "brain", _SCENES, _OBJECTS),
        flag=True,
    )
    format: str | None = setting(default=None, choices=("lits", "nnunet", "decathlon"), flag=True)


SUMMARY = "writes synthetic CTs, MR images or photos, to try everything without patient data."
EXAMPLE = "mtf-imaging phantom --output_dir cases --num_cases 12 --seed 1"
SETTINGS = (_Flags,)


def run(values: flags.FlagValues) -> str:
    check_no_run(values.output_dir)
    if values.kind in (_SCENES, _OBJECTS):
        return _write_photos(values)
    from mtf_imaging.data.phantom.phantom import write_phantom

    write_phantom(values.output_dir, values.num_cases, values.seed, kind=values.kind, file_format=values.format)
    return f"mtf-imaging convert --input_dir {shlex.quote(values.output_dir)} --output_dir records --resolution 64"


def _write_photos(values: flags.FlagValues) -> str:
    if values.format is not None:
        layout = "the folders of PASCAL VOC" if values.kind == _SCENES else "the layout of COCO"
        raise ConfigError(
            f"--format={values.format}: --kind={values.kind} always writes {layout}. Fix: leave out --format."
        )
    if values.kind == _OBJECTS:
        from mtf_imaging.kinds.objects.generator import write_objects

        train, held_out = write_objects(values.output_dir, values.num_cases, values.seed)
        print(f"{values.output_dir}: {len(train)} photos in train and {len(held_out)} in val")
    else:
        from mtf_imaging.kinds.photos.scenes import write_scenes

        train, held_out = write_scenes(values.output_dir, values.num_cases, values.seed)
        print(f"{values.output_dir}: {len(train)} photos in train.txt and {len(held_out)} in val.txt")
    folder = shlex.quote(values.output_dir)
    return f"mtf-imaging train --data_dir {folder} --eval_dir {folder} --model_dir run --gin_file {_JOBS[values.kind]}"
