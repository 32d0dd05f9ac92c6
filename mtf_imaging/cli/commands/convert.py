"""`mtf-imaging convert`: resamples NIfTI cases and writes them as records."""

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.next_step import after_convert
from mtf_imaging.cli.runtime.quiet import import_tensorflow

SUMMARY = "resamples CT cases to one resolution and writes the records that train reads."
EXAMPLE = "mtf-imaging convert --input_dir cases --output_dir records --resolution 64"
REQUIRED = ("input_dir", "output_dir")


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "input_dir", None, "Folder of cases, with the file names of LiTS, MSD or nnU-Net.", flag_values=values
    )
    flags.DEFINE_string("output_dir", None, "Folder for the records.", flag_values=values)
    flags.DEFINE_string(
        "resolution",
        None,
        "Voxels along x, y and z, for instance 64 or x:192,y:192,z:96. Without --spacing, they span the whole field of "
        "view of each volume, whatever its size in mm. Default: 256; with --spacing, the smallest box that contains "
        "every case, in multiples of 16, which crops nothing.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "spacing",
        None,
        "Voxel size in mm along x, y and z, for instance 1.5,1.5,2. Volumes are resampled to it, then padded with air "
        "or cropped around the center of their field of view to a box of --resolution voxels. A warning for each file "
        "counts the liver and lesion voxels that are cropped. evaluate and predict map their segmentations back to "
        "the voxels of each volume, with background outside of the box.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "grids",
        1,
        "With --spacing: the largest number of different grids, for cases of different sizes. Each case gets the "
        "smallest grid that contains it, and train builds a network per grid, with the same weights. The grids are "
        "chosen for the fewest voxels in total.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "multiple",
        None,
        "With --spacing: the number of which the sizes of the chosen grids are multiples. Default: 16.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "format",
        None,
        ["zarr", "tfrecord"],
        "File format of the records: zarr for folders in OME-Zarr 0.5, which napari, neuroglancer and any Zarr reader "
        "open, or tfrecord for one uncompressed file per record. Default: the format of the records in the output "
        "folder, or zarr.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "chunk",
        None,
        "With --format zarr: voxels of a chunk along x, y and z, for instance 64 or x:64,y:64,z:32. Each chunk is a "
        "compressed file, and a process reads only the chunks of its slice. Default: 64.",
        flag_values=values,
    )
    setup_flags.define_spacing_csv(values)
    flags.DEFINE_integer(
        "workers",
        None,
        "Number of processes. Default: one per core, or fewer if the memory is short for the sizes of the cases.",
        lower_bound=1,
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str | None:
    from mtf_imaging.jobs.converting import convert

    convert(
        input_dir=values.input_dir,
        output_dir=values.output_dir,
        resolution=values.resolution,
        spacing=values.spacing,
        spacing_table=values.spacing_csv,
        grids=values.grids,
        multiple=values.multiple,
        record_format=values.format,
        chunk=values.chunk,
        workers=values.workers,
        prepare=import_tensorflow,
    )
    return after_convert(values)
