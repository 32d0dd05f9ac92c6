"""`mtf-imaging convert`: NIfTI cases to records on a grid."""

from absl import flags

from mtf_imaging.cli.quiet import import_tensorflow

SUMMARY = "resamples cases to a grid of voxels and writes the records that train reads."
EXAMPLE = "mtf-imaging convert --input_dir cases --output_dir records --resolution 64"
REQUIRED = ("input_dir", "output_dir")


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("input_dir", None, "Folder of cases, named as LiTS, MSD or nnU-Net do.", flag_values=values)
    flags.DEFINE_string("output_dir", None, "Folder for the records.", flag_values=values)
    flags.DEFINE_string("resolution", "256", "Voxels along x, y and z: 64, or x:192,y:192,z:96.", flag_values=values)


def run(values: flags.FlagValues) -> None:
    import_tensorflow()
    from mtf_imaging.data.convert import convert

    convert(values.input_dir, values.output_dir, values.resolution)
