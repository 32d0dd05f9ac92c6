"""Modules that a gin file imports: their search path, missing modules, and errors in modules."""

import importlib
import pickle
import subprocess
import sys

import gin
import nibabel as nib
import numpy as np
import pytest

from mtf_imaging.cli.config import gin_config
from mtf_imaging.cli.main import main
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.user_modules import USER_MODULES


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder; the modules imported from it are removed afterwards."""
    path = list(sys.path)
    monkeypatch.setattr(USER_MODULES, "_folders", {})
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert sys.path == path
    for name, found in list(sys.modules.items()):
        if (getattr(found, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def bind(*files, bindings=()):
    gin_config.bind(files, bindings, {})


def module(name):
    """Returns the text of a module with a configurable function; each test uses another name."""
    return f"import gin\n\n\n@gin.configurable('{name}')\ndef f(x=1):\n    return x\n"


def test_a_module_is_found_in_the_working_folder_and_beside_the_gin_file(here):
    (here / "jobs").mkdir()
    (here / "own_here.py").write_text(module("own_here"))
    (here / "jobs" / "own_beside.py").write_text(module("own_beside"))
    (here / "jobs" / "job.gin").write_text("import own_here\nimport own_beside\nown_here.x = 2\nown_beside.x = 3\n")
    bind("jobs/job.gin")
    assert gin.get_configurable("own_here")() == 2
    assert gin.get_configurable("own_beside")() == 3


def test_the_working_folder_comes_before_that_of_the_gin_file(here):
    (here / "jobs").mkdir()
    (here / "own_twice.py").write_text(module("own_first"))
    (here / "jobs" / "own_twice.py").write_text(module("own_second"))
    (here / "jobs" / "job.gin").write_text("import own_twice\n")
    bind("jobs/job.gin")
    assert sys.modules["own_twice"].__file__ == str(here / "own_twice.py")


def test_a_parameter_may_import(here):
    (here / "own_parameter.py").write_text(module("own_parameter"))
    bind(bindings=["import own_parameter", "own_parameter.x = 5"])
    assert gin.get_configurable("own_parameter")() == 5


def test_only_the_users_modules_import_others_from_their_folder(here):
    """Libraries look for modules that may be missing, such as winreg; a file with this name would run."""
    (here / "jobs").mkdir()
    text = "import importlib\n\ndef late():\n    return importlib.import_module('own_late')\n"
    (here / "jobs" / "own_importing.py").write_text(f"import own_helper\n{text}")
    for name in ("own_helper", "own_late", "winreg"):
        (here / "jobs" / f"{name}.py").write_text("")
    (here / "own_helper.py").write_text("raise RuntimeError('of the working folder')\n")
    (here / "own_there.py").write_text("")
    (here / "jobs" / "job.gin").write_text("import own_importing\n")
    bind("jobs/job.gin")
    own = sys.modules["own_importing"]
    assert sys.modules["own_helper"].__file__ == str(here / "jobs" / "own_helper.py")
    for name in ("winreg", "own_late", "own_there"):
        assert importlib.util.find_spec(name) is None
    assert own.late().__file__ == str(here / "jobs" / "own_late.py")
    with pytest.raises(ImportError):
        exec("import own_there", vars(own))


def test_a_folder_with_the_name_of_a_module_does_not_replace_it(here):
    (here / "own_data").mkdir()
    (here / "jobs").mkdir()
    (here / "jobs" / "own_data.py").write_text(module("own_data"))
    (here / "jobs" / "job.gin").write_text("import own_data\nown_data.x = 7\n")
    bind("jobs/job.gin")
    assert gin.get_configurable("own_data")() == 7


def test_an_installed_module_does_not_import_from_a_folder_of_its_name(here):
    """The folder of the module's data; the module itself is installed."""
    (here / "colorsys").mkdir()
    (here / "own_optional.py").write_text("raise RuntimeError('nobody has named this module')\n")
    bind(bindings=["import colorsys"])
    import colorsys

    with pytest.raises(ModuleNotFoundError):
        exec("import own_optional", vars(colorsys))


def test_another_process_loads_objects_of_the_users_classes(here):
    (here / "jobs" / "own_package").mkdir(parents=True)
    (here / "jobs" / "own_base.py").write_text("from own_deep import value\n\nclass Base:\n    value = value\n")
    (here / "jobs" / "own_deep.py").write_text("value = 6\n")
    (here / "jobs" / "own_package" / "__init__.py").write_text("")
    (here / "jobs" / "own_package" / "net.py").write_text("import own_base\n\nclass Net(own_base.Base):\n    pass\n")
    (here / "jobs" / "job.gin").write_text("import own_package.net\n")
    bind("jobs/job.gin")
    (here / "sent").write_bytes(pickle.dumps((USER_MODULES, sys.modules["own_package.net"].Net())))
    load = (
        "import pickle, sys; _, net = pickle.load(open(sys.argv[1], 'rb')); print(net.value, 'jobs' in str(sys.path))"
    )
    words = [sys.executable, "-P", "-c", load, here / "sent"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "6 False\n"


def test_a_file_with_the_name_of_a_library_never_replaces_it(here):
    for name in ("json", "gin", "numpy", "colorsys"):
        (here / f"{name}.py").write_text("raise RuntimeError('the wrong one')\n")
    sys.modules.pop("colorsys", None)
    bind(bindings=["import textwrap"])
    import colorsys

    assert not colorsys.__file__.startswith(str(here))


@pytest.mark.parametrize("name", ["json", "colorsys", "sys"])
def test_a_library_is_not_imported_instead_of_the_users_module(here, name):
    (here / f"{name}.py").write_text(module(f"own_{name}"))
    with pytest.raises(ConfigError) as error:
        bind(bindings=[f"import {name}"])
    assert f"'import {name}' imports another module of that name (" in str(error.value)
    assert f"not {here / name}.py. Fix: rename your module." in str(error.value)


def test_a_missing_module_is_reported_with_the_search_path(here):
    (here / "jobs").mkdir()
    (here / "my_net.py").write_text("")
    (here / "jobs" / "job.gin").write_text("import my_nte\n")
    with pytest.raises(ConfigError) as error:
        bind("jobs/job.gin")
    assert str(error.value).splitlines() == [
        f"gin file jobs/job.gin: there is no module 'my_nte', neither installed nor in {here}, {here}/jobs. "
        "Did you mean 'my_net'? Fix: run the command in the folder of the module, or add the folder to PYTHONPATH.",
        '  In file "jobs/job.gin", line 1',
        "    import my_nte",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "x = {}\n\n\ndef f():\n    return x['y']\n\n\nf()\n",
            ["line 8, in <module>", "line 5, in f", "KeyError: 'y'"],
        ),
        ("import not_there\n", ["line 1, in <module>", "ModuleNotFoundError: No module named 'not_there'"]),
        ("from gin import nothing\n", ["line 1, in <module>", "ImportError: cannot import name 'nothing'"]),
        ("\ndef f(:\n", ["line 2", "def f(:", "SyntaxError: invalid syntax"]),
        ("raise ValueError('no such thing')\n", ["line 1, in <module>", "ValueError: no such thing"]),
    ],
)
def test_an_error_in_a_module_is_shown_with_its_own_frames(here, text, shown):
    (here / "own_broken.py").write_text(text)
    (here / "job.gin").write_text("import own_broken\n")
    with pytest.raises(ConfigError) as error:
        bind("job.gin")
    message = str(error.value)
    assert message.startswith("gin file job.gin: module 'own_broken' cannot be imported:\n")
    assert f'File "{here}/own_broken.py"' in message
    assert all(words in message for words in shown)
    assert "importlib" not in message
    assert "own_modules.py" not in message


def test_a_module_is_announced_with_its_file_before_its_code_runs(here, caplog, capsys):
    (here / "run").mkdir()
    (here / "run" / "own_strange.py").write_text(f"print('code runs')\n{module('own_strange')}")
    (here / "run" / "included.gin").write_text("train.num_steps = 3\n")
    (here / "run" / "config.gin").write_text(
        "include 'included.gin'\nimport own_strange\nimport mtf_imaging.models.resnet\n"
    )
    with caplog.at_level("INFO"):
        bind("run/config.gin")
    file = here / "run" / "own_strange.py"
    assert caplog.text.count(f"run/config.gin imports the module 'own_strange': running {file}") == 1
    assert "resnet" not in caplog.text
    assert capsys.readouterr().out == "code runs\n"


@pytest.mark.parametrize("statement", ["import {}", "from {} import f", "import {}.part"])
def test_imports_can_be_forbidden(here, capsys, statement):
    name = f"own_forbidden_{len(statement)}"
    (here / name).mkdir()
    for part in ("__init__", "part"):
        (here / name / f"{part}.py").write_text(f"print('code runs')\n{module(name)}")
    (here / "config.gin").write_text(f"import mtf_imaging.models.resnet\n{statement.format(name)}\n")
    text = rf"config.gin imports the module '{name}.*' \(.*{name}/__init__.py\), which runs its code.*Fix: read"
    with pytest.raises(ConfigError, match=text) as raised:
        gin_config.bind(["config.gin"], [], {}, import_modules=False)
    assert raised.value.settings == ("import_modules",)
    assert capsys.readouterr().out == ""
    assert name not in sys.modules


@pytest.mark.parametrize("import_modules", [True, False])
def test_a_gin_file_cannot_call_functions_that_no_module_registers(here, import_modules):
    """With this feature of gin, a name is looked up as an attribute of an imported module, here of this package."""
    workers = "mtf_imaging.files.workers"
    lines = f"import {workers}\n{workers}.os.mkdir.path = 'made'\n{workers}.cpu_time.x = @{workers}.os.mkdir()\n"
    (here / "config.gin").write_text("include 'more.gin'\n")
    (here / "more.gin").write_text(f"from __gin__ import dynamic_registration\n{lines}")
    with pytest.raises(ConfigError, match=r"imports from __gin__\. .* any function of Python\. Fix: remove the stat"):
        gin_config.bind(["config.gin"], [], {}, import_modules)
    assert not (here / "made").exists()


def test_a_stranger_s_run_runs_no_code_if_imports_are_forbidden(here, capsys):
    (here / "run").mkdir()
    (here / "run" / "own_hostile.py").write_text("print('code runs')\n")
    (here / "run" / "config.gin").write_text("import own_hostile\n")
    (here / "run" / "ckpt-1.index").touch()
    words = ["--model_dir", "run", "--input", "a.nii.gz", "--output", "b.nii.gz", "--noimport_modules"]
    nib.save(nib.Nifti1Image(np.zeros((8, 8, 8), np.int16), np.eye(4)), here / "a.nii.gz")
    assert main(["predict", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "imports the module 'own_hostile' (" in err
    assert "On the command line: --import_modules" in err
