"""`mtf-imaging bench`: the forms of --setup, and measurements of small steps."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands.bench import parse_setup
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import MtfImagingError
from tests import commands, waiting

NETWORK = ("--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=2", "--gin.UNet3D.convs=1")
SMALL = ("--resolution=16", *NETWORK, "--steps=2")


def run(capsys, *argv):
    code = main.main(["bench", *argv])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("text", "setup"),
    [
        ("rows:2,cols:2/x:rows,y:cols", ("rows:2,cols:2/x:rows,y:cols", "rows:2,cols:2", "x:rows,y:cols")),
        (" rows:2; cols:2 / x:rows ", ("rows:2; cols:2/x:rows", "rows:2,cols:2", "x:rows")),
        ("rows:2/", ("rows:2/", "rows:2", "")),
        ("/", ("one processor", "", "")),
        ("", ("one processor", "", "")),
        ("single", ("one processor", "", "")),
        ("4x4", ("4x4", "rows:4,cols:4", "x:rows,y:cols")),
        ("layouts/4x4.gin", ("4x4", "rows:4,cols:4", "x:rows,y:cols")),
    ],
)
def test_setups(text, setup):
    name, mesh_shape, layout = setup
    assert parse_setup(text) == (name, Layout.parse(mesh_shape, layout))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows:2", "--setup rows:2: has no '/', but needs 1 between the mesh and the layout. Fix: give --setup MESH/"),
        ("rows:2/x:rows/y:cols", "has 2 '/'"),
        ("rows:2/x=rows", "x=rows"),
        ("rows:two/x:rows", "rows:two"),
        ("4x5", "there is no gin file '4x5', neither here nor shipped. Did you mean '4x4'?"),
        ("unet3d_demo", "Fix: give it to all setups with --gin_file unet3d_demo"),
    ],
)
def test_errors_in_setups(text, message):
    with pytest.raises(MtfImagingError) as error:
        parse_setup(text)
    assert message in str(error.value)


def test_a_custom_layout_file(tmp_path):
    file = tmp_path / "mine.gin"
    file.write_text("import mtf_imaging\nsetup.layout = 'x:rows'\n")
    with pytest.raises(MtfImagingError, match="has import; a layout file binds only"):
        parse_setup(str(file))
    file.write_text("setup.mesh_shape = 'rows:2'\nsetup.layout = 2\n")
    with pytest.raises(MtfImagingError, match=r"binds only setup\.mesh_shape and setup\.layout, to strings"):
        parse_setup(str(file))
    for text in ("setup.layout = = 'x:rows'\n", "setup.layout = 'x:rows\n"):
        file.write_text(text)
        with pytest.raises(MtfImagingError, match=r"mine\.gin"):
            parse_setup(str(file))
    file.write_text("setup:\n  mesh_shape = 'rows:2'\n  layout = 'x:rows'\n")
    assert parse_setup(str(file)) == ("mine", Layout.parse("rows:2", "x:rows"))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--setup=4x4", "--mesh_shape=rows:2", "--layout=x:rows"], "Fix: --setup 'rows:2/x:rows' instead of --mesh_"),
        (
            ["--setup=4x4", "--layout=x:rows"],
            "--layout cannot be combined with --setup, which contains a mesh and a layout.",
        ),
        (["--setup=4x4", "--input_partition_dims=[1,2,2,1,1]"], "Fix: --setup 'MESH/LAYOUT' instead of --input_part"),
        (["--num_steps=2"], "bench has no flag '--num_steps', which train and cross_validate have."),
        (["--steps=0"], "--steps must be an int of at least 1, not 0."),
        (
            ["--resolution=16", "--price_per_hour=-2"],
            "--price_per_hour must be a number above 0, not -2.0.",
        ),
    ],
)
def test_errors_in_flags(capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert message in err


def test_all_illegal_layouts_are_reported_before_anything_runs(capsys):
    code, out, err = run(
        capsys, *SMALL, "--setup=rows:3/x:rows,y:rows", "--setup=rows:2/z:cols", "--setup=rows:3/classes:rows"
    )
    assert (code, out) == (2, "")
    for text in (
        "rows:3/x:rows,y:rows: layout 'x:rows,y:rows' on mesh 'rows:3' has",
        "rows:2/z:cols: layout 'z:cols'",
        "cannot split 'classes' (size 3) over 'rows' (size 3)",
    ):
        assert text in err
    assert "build" not in err


def _check(found, names):
    assert [row["name"] for row in found["setups"]] == names
    assert found["equal"]
    assert not found["differences"]
    for row in found["setups"]:
        assert row["error"] is None
        assert len(row["steps_seconds"]) == 2
        assert row["memory_bytes"] > 0
        assert row["build_seconds"] > 0
        assert row["modelled"]["seconds"] > 0
        assert row["modelled_by_measured"]["tensors"] > 0


@pytest.mark.slow
def test_setups_are_measured(capsys):
    larger = (
        "--resolution=32",
        "--gin.UNet3D.base_filters=4",
    )  # TensorFlow does not count small tensors on a CPU
    code, out, err = run(
        capsys,
        *SMALL,
        *larger,
        "--json",
        "--setup=/",
        "--setup=rows:5,cols:2/x:rows,y:cols",
        "--setup=rows:3/x:rows,y:rows",
    )
    assert code == 0, err
    found = json.loads(out)
    illegal = found["setups"].pop()
    assert illegal["error"].startswith("layout 'x:rows,y:rows' on mesh 'rows:3' has")
    assert illegal["error"] in err
    _check(found, ["one processor", "rows:5,cols:2/x:rows,y:cols"])
    assert found["hardware"]["flops"] > 1e8
    assert found["hardware"]["name"] == "this machine"
    one, split = found["setups"]
    assert one["loss"] == pytest.approx(split["loss"], rel=1e-5)
    assert one["moved_bytes"] == 0 < split["moved_bytes"] == split["modelled"]["moved_bytes"]


@pytest.mark.slow
def test_the_model_includes_the_memory_and_the_offloaded_bytes_of_turns(capsys):
    turns = ("--resolution=32", "--mesh_shape=slabs:4", "--layout=x:slabs", "--sequential=slabs", "--json")
    code, out, err = run(capsys, *SMALL, *turns)
    assert code == 0, err
    found = json.loads(out)
    one, in_turns = (row["modelled"] for row in found["setups"])
    assert commands.run("explain", *NETWORK, *turns) == 0
    costs = json.loads(capsys.readouterr()[0])["turns"]
    offload = (costs["written"] + costs["read"]) / found["hardware"]["offload"]
    assert in_turns["seconds"] - one["seconds"] > 0.9 * offload
    assert in_turns["memory_bytes"] == costs["memory"] < one["memory_bytes"]


@pytest.mark.slow
def test_the_layout_of_the_job_is_compared_with_one_processor(capsys):
    options = ("--batch_size=2", "--micro_batches=2", "--gin_file=unet3d_demo", "--gin_file=2x2")
    code, out, err = run(capsys, *SMALL, *options, "--gin.job.dtype='bfloat16'", "--price_per_hour=1.5")
    assert code == 0, err
    assert "one device, /device:CPU:0: all processors share it" in out
    assert "\none processor " in out
    assert "\nrows:2,cols:2/x:rows,y:cols " in out
    assert "model / measured, mean of all setups: step " in out
    assert "all setups agree: first loss " in out
    training = out.partition("all setups agree: ")[2].splitlines()[1:]
    assert training[1].split() == ["measured", "from", "the", "measured", "step"]
    assert [line.split("  ")[0] for line in training[3:5]] == ["one processor", "rows:2,cols:2/x:rows,y:cols"]
    assert training[5].startswith("hours: 400 steps of the measured time, without start-up")
    assert training[6] == "cost: 1.50 per device-hour"


@pytest.mark.slow
def test_ctrl_c_ends_the_processes(tmp_path):
    command = [sys.executable, "-m", "mtf_imaging.cli.main", "bench", *SMALL, "--setup=/", "--setup=2x2"]
    with open(tmp_path / "err", "w") as err:
        process = subprocess.Popen(
            [*command, "--steps=100000"],
            stderr=err,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    with waiting.killed_at_end(process):
        log = tmp_path / "err"
        waiting.wait_until(lambda: "steps in turn" in log.read_text(), "the first steps", [process], [log])
        os.killpg(process.pid, signal.SIGINT)
        assert waiting.wait_for_end(process, logs=[log]) == 130
        assert "interrupted" in log.read_text()
        # Processes that continue the steps never end by themselves.
        waiting.wait_until(lambda: not _is_running(process.pid), "the end of all processes", logs=[log])


def _is_running(group):
    """Returns whether a process of a group is running."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
