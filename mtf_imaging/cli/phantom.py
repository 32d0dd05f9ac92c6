"""`mtf-imaging phantom`: LiTS-shaped cases of a procedural abdomen."""

from absl import flags

SUMMARY = "writes LiTS-shaped CT cases of a made-up abdomen, to try everything without patient data."
EXAMPLE = "mtf-imaging phantom --output_dir cases --num_cases 12 --seed 1"
REQUIRED = ("output_dir",)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output_dir", None, "Folder for volume-N.nii.gz and segmentation-N.nii.gz.", flag_values=values)
    flags.DEFINE_integer("num_cases", 12, "How many cases to write.", flag_values=values)
    flags.DEFINE_integer("seed", 0, "The same seed gives the same bytes.", lower_bound=0, flag_values=values)


def run(values: flags.FlagValues) -> None:
    from mtf_imaging.data.phantom import write_phantom

    write_phantom(values.output_dir, values.num_cases, values.seed)
