"""`mtf-imaging phantom`: LiTS-shaped cases of a procedural abdomen."""

from absl import flags

from mtf_imaging.files.run_folder import check_no_run

SUMMARY = "writes LiTS-shaped CT cases of a made-up abdomen, to try everything without patient data."
EXAMPLE = "mtf-imaging phantom --output_dir cases --num_cases 12 --seed 1"
REQUIRED = ("output_dir",)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for volume-N.nii.gz and segmentation-N.nii.gz.", flag_values=values)
    flags.DEFINE_integer("num_cases", 12, "How many cases to write.", flag_values=values)
    flags.DEFINE_integer("seed", 0, "The same seed gives the same bytes.", lower_bound=0, flag_values=values)
    flags.DEFINE_enum(
        "kind",
        "large_lesions",
        ["large_lesions", "small_lesions"],
        "large_lesions: 0 to 6 a case, most of 24 to 30 mm, on about 113 x 113 x 60 voxels. small_lesions: 8 to 14, "
        "two in five of them below 10 mm, on voxels half as wide.",
        flag_values=values,
    )


def run(values: flags.FlagValues) -> None:
    check_no_run(values.output_dir)
    from mtf_imaging.data.phantom.phantom import write_phantom

    write_phantom(values.output_dir, values.num_cases, values.seed, kind=values.kind)
