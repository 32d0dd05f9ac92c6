"""The flags that messages name for settings, and complete messages of commands."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import gin
import pytest

import mtf_imaging
import mtf_imaging.cli.config
from mtf_imaging.cli.commands.all_commands import COMMANDS, flags_of, load
from mtf_imaging.cli.main import main
from mtf_imaging.cli.runtime import messages
from mtf_imaging.cli.runtime.failures import explain
from mtf_imaging.cli.runtime.messages import on_the_command_line
from mtf_imaging.errors import ConfigError
from mtf_imaging.files import lock
from mtf_imaging.files.workers import in_parallel
from tests.files.handmade_run import write_run

PACKAGE = Path(mtf_imaging.__file__).parent


@pytest.fixture
def configurables():
    """Imports every configurable that a command or a job can use."""
    importlib.import_module("mtf_imaging.models.unet3d")
    importlib.import_module("mtf_imaging.models.resnet")
    for module in pkgutil.iter_modules(mtf_imaging.cli.config.__path__, "mtf_imaging.cli.config."):
        importlib.import_module(module.name)


def all_flags() -> set[str]:
    found = set()
    for name in COMMANDS:
        found |= {*flags_of(load(name))}
    return found


def settings_in(path: Path) -> set[str]:
    """Returns the strings that a file passes as `settings` to errors, warnings and faults."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        is_argument = isinstance(node, ast.keyword) and node.arg == "settings"
        if is_argument or (isinstance(node, ast.Assign) and "settings" in ast.unparse(node.targets).lower()):
            for listed in (one for one in ast.walk(node.value) if isinstance(one, ast.Tuple | ast.List)):
                found |= {one.value for one in listed.elts if isinstance(getattr(one, "value", None), str)}
    return found


def test_every_setting_of_a_message_is_spelled():
    known = {*all_flags(), *messages.FLAGS, *messages.PARAMETERS, *messages.NOTES}
    below = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in ("cli", "models")]
    used = {path: settings_in(path) for path in below}
    assert {"micro_batches", "spacing_table", "model_dir"} <= set().union(*used.values())
    assert {path: names - known for path, names in used.items() if names - known} == {}


def test_flags_and_gin_parameters_that_are_named_exist(configurables):
    assert set(messages.FLAGS.values()) <= all_flags()
    for name in [binding.partition("=")[0] for binding in messages.PARAMETERS.values()] + re.findall(
        r"\bjob\.\w+", str(messages.NOTES)
    ):
        owner, _, parameter = name.rpartition(".")
        assert parameter in inspect.signature(gin.get_configurable(owner)).parameters, name


def test_gin_can_read_the_examples(configurables):
    for binding in messages.PARAMETERS.values():
        with gin.unlock_config():
            gin.parse_config(re.sub(r"^([^=]*)='?(.*?)'?$", r"\1 = \2", binding).replace("@NAME()", "None"))
    gin.clear_config()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (None, "--batch_size, --micro_batches, --layout, --spacing_csv"),
        ("train", "--batch_size, --micro_batches, --layout"),
        ("predict", "--layout, --spacing_csv"),  # predict segments one volume at a time
        ("convert", "--spacing_csv"),
    ],
)
def test_flags_are_those_of_the_command(command, expected):
    settings = ("batch_size", "micro_batches", "layout", "spacing_table")
    assert on_the_command_line(settings, command) == f"On the command line: {expected}."
    assert on_the_command_line((), command) == on_the_command_line(["nothing"], "score") == ""


def test_gin_parameters_are_those_that_the_command_has(monkeypatch):
    monkeypatch.setattr(messages, "_is_configurable", lambda name: name == "train")
    assert on_the_command_line(["data", "dtype"]) == "On the command line: --gin.train.data='@NAME()'."


def test_an_error_that_passes_through_gin_keeps_its_settings(configurables):
    gin.parse_config(["job.task = None", "job.lesions_in_liver = 'yes'"])
    with pytest.raises(ConfigError) as error:
        gin.get_configurable("job")()
    gin.clear_config()
    assert explain(error.value) == (
        "lesions_in_liver must be True or False, not 'yes'.\nOn the command line: --gin.job.lesions_in_liver=True."
    )


def failed_output(monkeypatch, capsys, words: str, failure) -> str:
    """Returns the stderr of a command that fails with this error."""
    monkeypatch.setattr(load(words.split()[0]), "run", lambda values: failure())
    assert main(words.split()) in (1, 2)
    return capsys.readouterr().err


TRAIN = "train --data_dir records --model_dir run"
PREDICT = "predict --model_dir run --input cases --output out"


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (TRAIN, "--mesh_shape, --layout, --sequential, --batch_size, --micro_batches, --resolution"),
        (PREDICT, "--mesh_shape, --layout, --sequential, --resolution"),
    ],
)
def test_out_of_memory(monkeypatch, capsys, configurables, words, written):
    from mtf_imaging.engine.program.memory import shortage_explained

    def failure():
        with shortage_explained(lambda: None):
            raise MemoryError("Unable to allocate 4 PiB")

    assert failed_output(monkeypatch, capsys, words, failure) == (
        "mtf-imaging: out of memory: Unable to allocate 4 PiB.\n"
        "  Fix: do one of the following:\n"
        "  - more processors: use a larger mesh_shape on more devices, or a layout that splits more dimensions\n"
        "  - processors in turns, of which a device keeps one at a time, such as mesh_shape='slabs:8', "
        "layout='x:slabs' and sequential='slabs'\n"
        "  - less work at once: use a smaller batch_size or more micro_batches\n"
        "  - smaller tensors: use a lower resolution, or halve the bytes with dtype='bfloat16'\n"
        f"""On the command line: {written}, --gin.job.dtype='"DTYPE"'.\n"""
    )


def test_a_checkpoint_of_another_network(monkeypatch, capsys):
    from mtf_imaging.training.checkpoints.contents import Contents

    dtype = SimpleNamespace(name="float32")
    variable = SimpleNamespace(shape=SimpleNamespace(as_list=lambda: [3, 4]), dtype=dtype)
    program = SimpleNamespace(variables={"conv/filter": variable})
    key = "program/_masters/_named/dense.Skernel/.ATTRIBUTES/VARIABLE_VALUE"
    saved = Contents({key: (5,)}, {key: dtype})
    assert failed_output(monkeypatch, capsys, TRAIN, lambda: saved.changes("run/ckpt-5", program, True)) == (
        "mtf-imaging: run/ckpt-5: this checkpoint belongs to another network or optimizer: 'conv/filter' is missing in "
        "the checkpoint, but float32 [3, 4] in the network; 'dense/kernel' float32 [5] is only in the checkpoint. "
        "Fix: use the task, the optimizer and the dtype that the checkpoint was trained with, or another model_dir.\n"
        "On the command line: job.task in a --gin_file (the config.gin of a run already contains it), "
        "--gin.train.optimizer='@NAME()', --gin.job.dtype='\"DTYPE\"', --model_dir.\n"
    )


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker(monkeypatch, capsys):
    words = "convert --input_dir cases --output_dir records"
    assert failed_output(monkeypatch, capsys, words, lambda: list(in_parallel(die, [13, 13], 2))) == (
        "mtf-imaging: a worker process was killed while 13 was processed, possibly for lack of memory. "
        "Fix: use fewer workers.\n"
        "On the command line: --workers.\n"
    )


def test_missing_splits(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(Path("run"))
    words = "evaluate --model_dir run --input_dir cases --output_dir out --fold 0"
    assert main(words.split()) == 1
    assert capsys.readouterr().err == (
        "mtf-imaging: run/splits_final.json: this file of splits does not exist. Fix: give a splits_file that train "
        "wrote.\nOn the command line: --splits_file.\n"
    )
    Path("splits.json").write_text('[{"train": ["1"], "val": ["2"]}]')
    assert main([*words.split()[:-1], "3", "--splits_file", "splits.json"]) == 1
    assert capsys.readouterr().err == (
        "mtf-imaging: splits.json: fold 3 does not exist; there are 1 folds. Fix: choose 0 to 0.\n"
        "On the command line: --fold.\n"
    )


def test_labels_that_are_cropped_away_and_a_folder_that_another_process_writes_to(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["phantom", "--output_dir", "cases", "--num_cases", "1"]) == 0
    words = ["convert", "--input_dir=cases", "--output_dir=out", "--resolution=8", "--spacing=8", "--workers=1"]
    with lock.held("out"):
        holder = Path("out", lock.NAME).read_text()
        capsys.readouterr()
        assert main(words) == 2
    assert capsys.readouterr().err.endswith(
        f"mtf-imaging: out: another run is writing to this folder ({holder}). "
        "Fix: wait until that run ends, stop it, or choose another output_dir.\n"
        "On the command line: --output_dir.\n"
    )
    assert main(words) == 0
    assert (
        "\rcases/segmentation-0.nii.gz: 57623 of 61618 liver voxels and 1177 of 1177 lesion voxels lie outside "
        "the box x:8,y:8,z:8 of 8,8,8 mm and are cropped. Fix: increase the resolution, or choose a coarser spacing.\n"
        "On the command line: --resolution, --spacing.\n"
    ) in capsys.readouterr().err
