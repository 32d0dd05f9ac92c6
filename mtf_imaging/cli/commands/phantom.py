"""`mtf-imaging phantom`: writes synthetic cases in the format of LiTS."""

from absl import flags

from mtf_imaging.cli.runtime.next_step import after_phantom
from mtf_imaging.files.run_folder import check_no_run

SUMMARY = "writes synthetic CT cases of an abdomen, to try everything without patient data."
EXAMPLE = "mtf-imaging phantom --output_dir cases --num_cases 12 --seed 1"
REQUIRED = ("output_dir",)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "output_dir", None, "Folder for the cases: volume-N.nii.gz and segmentation-N.nii.gz.", flag_values=values
    )
    flags.DEFINE_integer("num_cases", 12, "Number of cases to write.", flag_values=values)
    flags.DEFINE_integer(
        "seed", 0, "Seed of the random numbers; the same seed writes the same bytes.", lower_bound=0, flag_values=values
    )
    flags.DEFINE_enum(
        "kind",
        "large_lesions",
        ["large_lesions", "small_lesions"],
        "large_lesions: 0 to 6 lesions per case, most of them 24 to 30 mm wide, in about 113 x 113 x 60 voxels. "
        "small_lesions: 8 to 14 lesions per case, two in five of them below 10 mm, in voxels half as wide.",
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str | None:
    check_no_run(values.output_dir)
    from mtf_imaging.data.phantom.phantom import write_phantom

    write_phantom(values.output_dir, values.num_cases, values.seed, kind=values.kind)
    return after_phantom(values)
