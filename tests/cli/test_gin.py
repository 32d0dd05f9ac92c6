"""Gin files: their search path, their precedence, and errors in them."""

import re
from pathlib import Path

import gin
import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import all_commands
from mtf_imaging.cli.config import configurables, gin_config, resources, setup_flags
from mtf_imaging.cli.config.flags_of_settings import required
from mtf_imaging.cli.config.gin_text import read_gin_text
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.cli.runtime import usage
from mtf_imaging.engine.layout import MESH_IMPLS, check_names, parse_shape
from mtf_imaging.errors import ConfigError, LayoutError

LAYOUTS = sorted(name for name in resources.shipped_files() if name.startswith("layouts/"))


for module in ("tests.left", "tests.right"):
    gin.external_configurable(lambda: None, "twin", module=module)


@gin.configurable("toy", module="tests")
def toy(num_steps=1, rate=0.1, child=None):
    return num_steps, rate, child


def setup_of(*argv, saved=None, **options):
    values = usage.parse_flags("train", all_commands.load("train"), ["--data_dir=a", "--model_dir=b", *argv])
    return setup_flags.Configuration(values, saved, **options).bind()


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_folder_without_a_run_is_reported(tmp_path, capsys, command):
    (tmp_path / "empty").mkdir()
    words = dict.fromkeys(required(*all_commands.load(command).SETTINGS), "x")
    for folder, what in (("none", "this folder does not exist"), ("empty", "this folder holds no config.gin")):
        argv = [f"--{flag}={value}" for flag, value in (words | {"model_dir": tmp_path / folder}).items()]
        for more in ([], ["--gin_file=2x2"]):
            assert main.main([command, *argv, *more]) == 2
            message = f"{tmp_path / folder}: {what}. Fix: give the folder of a run as --model_dir.\n"
            assert capsys.readouterr().err == f"mtf-imaging: {message}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_shipped_layouts():
    names = [name.removeprefix("layouts/").removesuffix(".gin") for name in LAYOUTS]
    assert names == ["16x16x2", "2x2", "2x2x2", "4x4", "single"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_first_line_of_a_layout_file_names_the_processors(name):
    setup = setup_of(f"--gin_file={name}")
    assert check_names(setup.layout, setup.mesh_shape, ["batch", "x", "y", "z", "channels"]) == ()
    processors = 1
    for _, size in parse_shape(setup.mesh_shape):
        processors *= size
    first_line = resources.shipped_files()[name].read_text().splitlines()[0]
    assert re.search(rf"^# .*\b{processors} processors?\b", first_line)


@pytest.mark.parametrize("name", ["2x2", "2x2.gin", "layouts/2x2", "layouts/2x2.gin"])
def test_a_shipped_file_is_found_by_any_of_its_names(here, name):
    assert gin_config.find_gin_file(name) == resources.shipped_files()["layouts/2x2.gin"]


def test_the_working_folder_comes_first(here):
    (here / "2x2.gin").write_text("setup.batch_size = 7\n")
    (here / "layouts").mkdir()
    (here / "layouts" / "4x4.gin").write_text("setup.batch_size = 8\n")
    assert setup_of("--gin_file=2x2").batch_size == 7
    gin.clear_config()
    assert setup_of("--gin_file=layouts/4x4.gin").batch_size == 8


def test_an_unknown_file_suggests_the_closest(here):
    with pytest.raises(
        ConfigError,
        match=r"there is no gin file 'layouts/4x5\.gin', .* Did you mean '4x4'\? Fix: check the path\. Shipped: ",
    ):
        gin_config.find_gin_file("layouts/4x5.gin")


def test_a_flag_beats_a_parameter_beats_the_last_file_beats_the_saved_one(here):
    for name, size in (("saved", 2), ("first", 3), ("last", 4)):
        (here / f"{name}.gin").write_text(f"setup.batch_size = {size}\n")
    saved = here / "saved.gin"
    cases = {
        (): 2,
        ("--gin_file=first",): 3,
        ("--gin_file=first", "--gin_file=last"): 4,
        ("--gin_param=setup.batch_size=5", "--gin_file=last"): 5,
        ("--gin.setup.batch_size=6", "--gin_file=last"): 6,
        ("--gin.setup.batch_size=6", "--batch_size=7", "--gin_param=setup.batch_size=5"): 7,
    }
    for argv, expected in cases.items():
        gin.clear_config()
        assert setup_of(*argv, saved=saved).batch_size == expected
    gin.clear_config()
    assert setup_of(saved=here / "not_there.gin") == JobSetup()


def test_every_setup_flag_binds_its_parameter():
    setup = setup_of(
        "--mesh_shape=rows:2", "--layout=x:rows", "--mesh_impl=stacked", "--resolution=64", "--batch_size=2"
    )
    assert setup == JobSetup(mesh_shape="rows:2", layout="x:rows", mesh_impl="stacked", resolution="64", batch_size=2)


def test_an_empty_layout_on_the_command_line_replaces_the_layout_of_a_file():
    assert setup_of("--gin_file=2x2", "--mesh_shape=", "--layout=") == JobSetup()


def test_flags_of_training_settings_bind_parameters():
    setup_of("--num_steps=9", "--gin.train.seed=5", trains=True)
    assert (gin.query_parameter("train.num_steps"), gin.query_parameter("train.seed")) == (9, 5)
    gin.clear_config()
    setup_of("--gin.train.num_steps=3", trains=True)
    assert gin.query_parameter("train.num_steps") == 3


@pytest.mark.parametrize("name", ["layouts/2x2.gin", "2x2"])
def test_a_file_may_include_shipped_ones(here, name):
    (here / "layouts").mkdir()
    (here / "mine.gin").write_text(f"include '{name}'\nsetup.batch_size = 3\n")
    assert setup_of("--gin_file=mine") == JobSetup(mesh_shape="rows:2,cols:2", layout="x:rows,y:cols", batch_size=3)


def test_a_file_may_include_files_in_its_folder(here):
    (here / "jobs").mkdir()
    (here / "jobs/base.gin").write_text("setup.batch_size = 3\n")
    (here / "jobs/mine.gin").write_text("include 'base.gin'\ninclude '2x2'\n")
    assert setup_of("--gin_file=jobs/mine.gin") == JobSetup(
        mesh_shape="rows:2,cols:2", layout="x:rows,y:cols", batch_size=3
    )


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("toi.rate=1", "gin parameter toi.rate=1: No configurable matching 'toi'. Did you mean 'toy'?"),
        ("toy.child=@toi()", "No configurable matching reference '@toi()'. Did you mean 'toy'?"),
        ("toy.num_stpes=1", "Configurable 'toy' doesn't have a parameter named 'num_stpes'. Did you mean 'num_steps'?"),
        ("Augmentation.elastik=1", "doesn't have a parameter named 'elastik'. Did you mean 'elastic'?"),
        ("toy.q=1", "doesn't have a parameter named 'q'. Known: num_steps, rate, child."),
        ("setup.layout=x:rows", "In gin, a string needs quotes, for instance --gin.setup.layout='\"x:rows\"'."),
        (
            "job.dtype=bfloat16",
            "the value is not valid gin. In gin, a string needs quotes, for instance --gin.job.dtype='\"bfloat16\"'.",
        ),
        (
            "seed=1",
            "'seed' is not of the form NAME.PARAMETER, and no file uses %seed. Did you mean 'train.seed'? Fix: give",
        ),
        ("toy.rate", "gin parameter toy.rate: "),
        ("num_steps=1", "gin parameter num_steps=1: 'num_steps' is not of the form NAME.PARAMETER, and no file uses"),
        ("toy.rate=%missing", "the gin configuration: %missing has no value. Fix: add a line such as missing = 1"),
        (
            "toy.child=@twin()",
            "'twin' is ambiguous: tests.left.twin, tests.right.twin. Fix: write one of these names in full.",
        ),
        ("include '2x3.gin'", "there is no gin file '2x3.gin', neither here nor shipped. Did you mean '2x2'?"),
    ],
)
def test_errors_in_parameters(parameter, message):
    with pytest.raises(ConfigError) as error:
        setup_of(f"--gin_param={parameter}")
    assert message in str(error.value)
    assert "In bindings string" not in str(error.value)


def test_a_missing_import_of_a_model_is_named():
    error = ValueError("No configurable matching reference '@unet3d.Segmentation()'.\n  In file")
    shown = "'@unet3d.Segmentation()'. Fix: add the line: import mtf_imaging.models.unet3d\n  In file"
    assert gin_config._explanation(error, "").endswith(shown)
    assert configurables.module_of("Adam") is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            ["Adam.learning_rate=@Adam()", "train.optimizer=@Adam()"],
            "Adam -> Adam refer to each other in a circle",
        ),
        (["a=%b", "b=%a", "toy.rate=%a"], "a -> b -> a refer to each other in a circle. Fix"),
        ([f"toy.rate={'(' * 3000}1{')' * 3000}"], "a value is nested too deeply"),
        (["toy.child=@a/toy()", "a/toy.child=1"], None),
    ],
)
def test_circles_and_depth_are_reported(parameters, message):
    if message is None:
        setup_of(*(f"--gin_param={each}" for each in parameters))
        assert toy()[2] == (1, 0.1, 1)
        return
    with pytest.raises(ConfigError, match=message):
        setup_of(*(f"--gin_param={each}" for each in parameters))


def test_settings_that_nothing_refers_to_are_named(caplog):
    setup_of("--gin.train.optimizer=@Adam()", "--gin.Adam.learning_rate=0.1", "--gin.toy.rate=1")
    assert "have no effect" not in caplog.text
    gin.clear_config()
    setup_of(
        "--gin.train.optimizer=@fast/Adam()",
        *("--gin_param=slow/Adam.beta1=0.1", "--gin_param=fast/Adam.beta1=0.2", "--gin.SGD.learning_rate=0.1"),
    )
    assert "no other setting uses their class or scope: slow/Adam.beta1, SGD.learning_rate. Fix" in caplog.text


def test_a_parameter_may_be_a_macro_that_another_uses():
    setup_of("--gin.steps=7", "--gin.toy.num_steps=%steps")
    assert toy()[0] == 7


def test_files_that_include_each_other_are_refused(here):
    (here / "first.gin").write_text("include 'second.gin'\n")
    (here / "second.gin").write_text("include './first.gin'\n")
    message = r"gin file first\.gin: (a value is nested too deeply, or )?its files include each other in a circle\."
    with pytest.raises(ConfigError, match=message):
        setup_of("--gin_file=first.gin")
    with pytest.raises(ConfigError, match=message):
        read_gin_text([Path("first.gin")], follow=True)


def test_errors_in_files_name_the_file_and_the_line(here):
    (here / "bad.gin").write_text("# a job\n\ntoy.rat = 1\n")
    with pytest.raises(ConfigError) as error:
        setup_of("--gin_file=bad")
    assert str(error.value).splitlines() == [
        "gin file bad.gin: Configurable 'toy' doesn't have a parameter named 'rat'. Did you mean 'rate'?",
        '  In file "bad.gin", line 3',
        "    toy.rat = 1",
    ]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"mesh_shape": "rows:0"}, LayoutError, "mesh_shape 'rows:0' has 1 fault"),
        ({"layout": "x"}, LayoutError, "layout 'x' has 1 fault"),
        ({"mesh_impl": "placed"}, ConfigError, "mesh_impl = 'placed' is not known. Did you mean"),
        ({"batch_size": 0}, ConfigError, "batch_size must be an int of at least 1, not 0."),
        ({"batch_size": "2"}, ConfigError, "not '2'."),
    ],
)
def test_invalid_values(fields, error, message):
    with pytest.raises(error, match=re.escape(message)):
        JobSetup(**fields)


def test_the_names_of_mesh_impls():
    import mtf_imaging as mi

    assert sorted(MESH_IMPLS) == sorted(mi.meshes.MESH_IMPLS)


def test_shipped_files_are_found_in_a_clone_and_installed(tmp_path, monkeypatch):
    package = tmp_path / "mtf_imaging"
    for folder in (package / "gin", tmp_path / "gin"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(resources.mtf_imaging, "__file__", str(package / "__init__.py"))
    assert resources.root() == package  # in site-packages, the folder `gin` next to the package belongs to gin-config
    (tmp_path / "setup.py").touch()
    assert resources.root() == tmp_path


def test_the_default_job_is_used_without_another_job(here):
    (here / "base.gin").write_text("setup.batch_size = 7\nsetup.layout = 'x:rows'\n")
    (here / "mine.gin").write_text("setup.resolution = 32\n")
    job = {"job": "base"}
    assert setup_of("--mesh_shape=rows:2", **job).batch_size == 7
    gin.clear_config()
    assert setup_of("--gin_file=2x2", **job) == JobSetup(
        mesh_shape="rows:2,cols:2", layout="x:rows,y:cols", batch_size=7
    )
    gin.clear_config()
    assert setup_of("--gin_file=mine", **job).batch_size == 1, "a custom gin file replaces the default job"
    gin.clear_config()
    assert setup_of(saved=here / "mine.gin", **job).batch_size == 1, "an earlier run replaces the default job"


@pytest.mark.parametrize("steps", [None, 700])
def test_a_flag_sets_the_macro_that_its_parameter_is_bound_to(steps):
    from mtf_imaging.cli.config.training_settings import Training

    values = {} if steps is None else {"train.num_steps": steps}
    gin_config.bind([gin_config.find_gin_file("unet3d_real_ct")], [], values)
    training = Training()
    last = steps or 400
    assert training.num_steps == last
    rates = [training.optimizer.learning_rate(step) for step in (last // 2, last - 1, last)]
    assert rates[0] > 0.001 > rates[1] > rates[2] == 0


def test_byte_order_marks_and_line_endings_of_windows(here):
    (here / "part.gin").write_bytes(b"\xef\xbb\xbftoy.rate = 0.25\r\n")
    (here / "mine.gin").write_bytes(b"\xef\xbb\xbfinclude 'part.gin'\r\nsetup.batch_size = 3\r\n")
    assert setup_of("--gin_file=mine").batch_size == 3
    assert gin.query_parameter("toy.rate") == 0.25


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "setup.batch_size = 3".encode("utf-16"),
            "gin file bad.gin: not a text file in UTF-8, but in UTF-16. Fix: save",
        ),
        (b"# \xfc", "gin file bad.gin: not a text file in UTF-8 (byte 0xfc at position 2)."),
    ],
)
def test_other_encodings_are_named(here, data, message):
    (here / "bad.gin").write_bytes(data)
    with pytest.raises(ConfigError) as error:
        setup_of("--gin_file=bad")
    assert str(error.value).startswith(message)


def test_words_that_are_not_text_are_refused(capsys):
    assert main.main(["convert", "--input_dir", "M\udcfcller", "--output_dir", "out"]) == 2
    assert capsys.readouterr().err.startswith("mtf-imaging: M\\xfcller: has bytes that are not UTF-8. Fix: rename")
