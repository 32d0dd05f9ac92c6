"""--input_partition_dims sets --mesh_shape and --layout, and logs both."""

import logging

import gin
import pytest

from mtf_imaging.cli.commands import all_commands
from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.config.flags_of_settings import required
from mtf_imaging.cli.runtime import usage
from mtf_imaging.errors import ConfigError, LayoutError


@gin.configurable(module="tests")
class Photo:
    """A task that has only inputs, with custom names of dimensions."""

    def inputs(self, batch_size, sizes, dtype, labels):
        height, width = sizes
        return {"image": (f"batch:{batch_size},height:{height},width:{width},channels:3", dtype)}


def setup_of(*argv, command="train"):
    words = dict.fromkeys(required(*all_commands.load(command).SETTINGS), "x")
    values = usage.parse_flags(
        command, all_commands.load(command), [*(f"--{flag}={value}" for flag, value in words.items()), *argv]
    )
    return setup_flags.Configuration(values).bind()


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "explain"])
def test_the_mesh_and_the_layout_are_set_and_logged(caplog, command):
    caplog.set_level(logging.INFO, "mtf_imaging")
    argv = ["--gin_file=unet3d_demo", "--input_partition_dims=[1,4,2,1,1]", "--num_cores_per_replica=8"]
    setup = setup_of(*argv, command=command)
    assert (setup.mesh_shape, setup.layout) == ("rows:4,cols:2", "x:rows,y:cols")
    assert caplog.messages == [
        "--input_partition_dims [1,4,2,1,1] over batch,x,y,z,channels is: "
        "--mesh_shape rows:4,cols:2 --layout x:rows,y:cols"
    ]


@pytest.mark.parametrize(
    ("dims", "layout"),
    [
        ("[[1,4,1,1],None]", ("rows:4", "x:rows")),
        ("1,1,2,1", ("rows:2", "y:rows")),
        ("[1,2,1]", ("rows:2", "x:rows")),
        ("[[2,1,1,2,1],[2,1,1,2]]", ("rows:2,cores:2", "z:rows,batch:cores")),
    ],
)
def test_without_a_job_the_number_of_dimensions_sets_their_names(dims, layout):
    setup = setup_of(f"--input_partition_dims={dims}")
    assert (setup.mesh_shape, setup.layout) == layout


def test_with_a_job_the_dimensions_have_the_names_of_the_job(caplog):
    caplog.set_level(logging.INFO, "mtf_imaging")
    setup = setup_of("--gin.job.task=@Photo()", "--input_partition_dims=[[1,4,1,1],None]")
    assert (setup.mesh_shape, setup.layout) == ("rows:4", "height:rows")
    assert caplog.messages[-1].endswith("over batch,height,width,channels is: --mesh_shape rows:4 --layout height:rows")


def test_the_flag_replaces_the_layout_of_a_file():
    setup = setup_of("--gin_file=unet3d_demo", "--gin_file=4x4", "--input_partition_dims=[1,1,1,1,1]")
    assert (setup.mesh_shape, setup.layout) == ("", "")


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["--input_partition_dims=[1,4"], LayoutError, "input_partition_dims '[1,4' cannot be parsed. Fix: "),
        (
            ["--input_partition_dims=[1,4]"],
            LayoutError,
            "has 2 numbers for the image, but an image has 3 to 5 dimensions. Fix: give one",
        ),
        (["--input_partition_dims=[None]"], LayoutError, "has 0 numbers for the image,"),
        (
            ["--input_partition_dims=[1,0,1,1]"],
            LayoutError,
            "the number of slices of 'x' must be a positive integer, not 0.",
        ),
        (
            ["--input_partition_dims=[1,4,2,1]", "--num_cores_per_replica=4"],
            LayoutError,
            "the number of slices is 4 x 2 = 8, but num_cores_per_replica is 4. Fix: set num_cores_per_replica to 8",
        ),
        (["--num_cores_per_replica=4"], ConfigError, "4 has no effect without --input_partition_dims. Fix: give both"),
        (
            ["--input_partition_dims=[1,4,1,1]", "--layout=x:rows", "--mesh_shape=rows:2"],
            ConfigError,
            "--input_partition_dims [1,4,1,1] and --mesh_shape 'rows:2' and --layout 'x:rows' both set the layout. "
            "Fix: leave one out; over batch,x,y,channels, --input_partition_dims is --mesh_shape rows:4 "
            "--layout x:rows.",
        ),
        (
            ["--input_partition_dims=[1,4,1,1]", "--gin_file=unet3d_demo"],
            ConfigError,
            "[1,4,1,1] has 4 numbers, but the job's image has 5 dimensions: batch,x,y,z,channels. Fix: give 5 numbers",
        ),
        (
            ["--input_partition_dims=[1,4,1,1,1]", "--gin.job.task=@Photo()"],
            ConfigError,
            "has 5 numbers, but the job's image has 4 dimensions: batch,height,width,channels. Fix: give 4 numbers",
        ),
    ],
)
def test_errors(argv, error, message):
    with pytest.raises(error) as raised:
        setup_of(*argv)
    assert message in str(raised.value)
