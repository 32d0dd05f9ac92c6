"""`mtf-imaging convert`: NIfTI cases to records, all sampled alike."""

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.quiet import import_tensorflow

SUMMARY = "resamples cases to voxels that all of them share and writes the records that train reads."
EXAMPLE = "mtf-imaging convert --input_dir cases --output_dir records --resolution 64"
REQUIRED = ("input_dir", "output_dir")


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("input_dir", None, "Folder of cases, named as LiTS, MSD or nnU-Net do.", flag_values=values)
    flags.DEFINE_string("output_dir", None, "Folder for the records.", flag_values=values)
    flags.DEFINE_string(
        "resolution",
        None,
        "Voxels along x, y and z: 64, or x:192,y:192,z:96; they span the whole field of view of each volume, whatever "
        "its size in mm, unless there is a --spacing. Default: 256; with --spacing, the smallest box that holds every "
        "case, in multiples of 16, so that nothing is cropped.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "spacing",
        None,
        "Size of a voxel in mm along x, y and z, as 1.5,1.5,2: volumes are resampled to it, then padded with air or "
        "cropped, around the middle of their field of view, to a box of --resolution voxels. Liver or lesion that is "
        "cropped away is counted and warned about, file by file. evaluate and predict put what they find back into "
        "each volume's own voxels; what they did not see is background.",
        flag_values=values,
    )
    setup_flags.define_spacing_csv(values)
    flags.DEFINE_integer(
        "workers",
        None,
        "Processes, of up to 2 GiB each for 512 x 512 x 800 voxels; default: one a core, as far as memory is free.",
        lower_bound=1,
        flag_values=values,
    )


def run(values: flags.FlagValues) -> None:
    from mtf_imaging.jobs.converting import convert

    convert(
        input_dir=values.input_dir,
        output_dir=values.output_dir,
        resolution=values.resolution,
        spacing=values.spacing,
        spacing_table=values.spacing_csv,
        workers=values.workers,
        prepare=import_tensorflow,
    )
