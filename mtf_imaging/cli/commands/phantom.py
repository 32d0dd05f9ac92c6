"""`mtf-imaging phantom`: writes synthetic cases in the formats of LiTS, nnU-Net and the Decathlon."""

from absl import flags

from mtf_imaging.cli.runtime.next_step import after_phantom
from mtf_imaging.files.run_folder import check_no_run

SUMMARY = "writes synthetic CTs or MR images, to try everything without patient data."
EXAMPLE = "mtf-imaging phantom --output_dir cases --num_cases 12 --seed 1"
REQUIRED = ("output_dir",)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for the cases.", flag_values=values)
    flags.DEFINE_integer("num_cases", 12, "Number of cases to write.", flag_values=values)
    flags.DEFINE_integer(
        "seed", 0, "Seed of the random numbers; the same seed writes the same bytes.", lower_bound=0, flag_values=values
    )
    flags.DEFINE_enum(
        "kind",
        "large_lesions",
        ["large_lesions", "small_lesions", "brain"],
        "large_lesions: 0 to 6 lesions per case, most of them 24 to 30 mm wide, in about 113 x 113 x 60 voxels. "
        "small_lesions: 8 to 14 lesions per case, two in five of them below 10 mm, in voxels half as wide. "
        "brain: a tumor with edema, necrosis and an enhancing rim in two channels, T1gd and FLAIR, in about "
        "108 x 122 x 99 voxels.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "format",
        None,
        ["lits", "nnunet", "decathlon"],
        "lits: volume-N.nii.gz and segmentation-N.nii.gz, the default for CTs. nnunet: imagesTr, with a file for each "
        "channel, labelsTr and dataset.json, the default for brains. decathlon: the same folders, with all channels in "
        "one file.",
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str | None:
    check_no_run(values.output_dir)
    from mtf_imaging.data.phantom.phantom import write_phantom

    write_phantom(values.output_dir, values.num_cases, values.seed, kind=values.kind, file_format=values.format)
    return after_phantom(values)
