"""`mtf-imaging`: help, errors in the command line, and exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import all_commands
from mtf_imaging.cli.commands.all_commands import COMMANDS
from mtf_imaging.cli.config.flags_of_settings import required
from mtf_imaging.cli.runtime import usage
from mtf_imaging.errors import ConfigError, DataError, Interrupted, LayoutError

FIX = "Fix: process less at a time, or use a machine with more memory."
ROOM = "Fix: free some disk space; files that were complete are unchanged."
OTHER = "Fix: check the permissions and the disk, or give another folder."
FOLDER = "Fix: give a folder, or a path that does not exist yet."


def tensorflow_error(name, text):
    """Returns an error like those of TensorFlow, without importing TensorFlow."""
    return type(name, (type("OpError", (Exception,), {}),), {})(f"{{{{function_node f}}}} {text} [Op:SaveV2]")


def run(capsys, *argv):
    code = main.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        *([command, "--help"] for command in COMMANDS),
        ["trian"],
        ["train", "--data", "x"],
        ["train", "--data_dir=a", "--model_dir=b", "--layout=x=rows"],
        ["train", "--data_dir=a", "--model_dir=b", "--gin_file=none"],
        ["train", "--data_dir=a", "--model_dir=b", "--input_partition_dims=[1,0,1,1]"],
        ["phantom"],
    ],
    ids=" ".join,
)
def test_help_and_errors_do_not_import_tensorflow(argv):
    check = (
        "import sys; from mtf_imaging.cli.main import main; main(sys.argv[1:]);"
        "assert not {'tensorflow', 'numpy', 'nibabel'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check, *argv], check=True, capture_output=True)


def test_the_package_runs_as_a_module(capsys):
    command = [sys.executable, "-m", "mtf_imaging", "trian"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == run(capsys, "trian")


def test_help_lists_every_command_with_an_example(capsys):
    code, out, err = run(capsys, "--help")
    assert (code, err) == (0, "")
    assert all(f"\n  {command} " in out for command in COMMANDS)
    assert all(f"\n{group}:\n  {names[0]} " in out for group, names in all_commands.GROUPS.items())
    assert max(map(len, out.splitlines())) <= 100
    assert "mtf-imaging demo --output_dir demo" in out
    assert "mtf-imaging parameters UNet3D\n" in out
    assert run(capsys) == (0, out, "")


def test_help_as_a_word(capsys):
    assert run(capsys, "help") == run(capsys, "--help")
    assert run(capsys, "help", "train") == run(capsys, "train", "help") == run(capsys, "train", "--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_its_flags_and_an_example_that_parses(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    module = all_commands.load(command)
    assert code == 0
    assert f"Example:\n  {module.EXAMPLE}\n" in out
    assert all(f"  --{flag} ({usage.needed(module, flag)})" in out for flag in required(*module.SETTINGS))
    assert "repeat this option" not in out
    program, name, *argv = module.EXAMPLE.split()
    assert (program, name) == ("mtf-imaging", command)
    usage.parse_flags(command, module, argv)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("score", "<lits|any>: lits scores"),
        ("score", "\n      dataset.json with the labels."),
        ("convert", "\n      Number of processes"),
        ("predict", "      test-volume-N.nii[.gz]."),
    ],
)
def test_help_spells_values_and_files_as_on_the_command_line(capsys, command, text):
    assert text in run(capsys, command, "--help")[1]


@pytest.mark.parametrize("command", ["train", "evaluate", "predict"])
def test_setup_flags_are_the_same(command):
    values = all_commands.flags_of(all_commands.load(command))
    expected = ["gin_file", "gin_param", "mesh_shape", "layout", "mesh_impl", "resolution", "batch_size"]
    assert [name for name in values if name in expected] == expected


# command -> (setup flags that it accepts without effect, flags that it does not accept); its help shows neither.
NO_EFFECT = {
    "evaluate": (["batch_size"], ["micro_batches", "num_steps", "seed", "eval_dir"]),
    "predict": (["batch_size"], ["micro_batches", "num_steps", "seed", "fold"]),
    "explain": ([], ["num_steps"]),
    "search": (["mesh_shape", "layout"], ["input_partition_dims", "num_cores_per_replica"]),
    "bench": ([], ["num_steps"]),
}


@pytest.mark.parametrize("command", NO_EFFECT)
def test_help_lists_only_flags_that_have_an_effect(capsys, command):
    idle, others = NO_EFFECT[command]
    out = run(capsys, command, "--help")[1]
    assert "  --gin_file" in out
    assert not [flag for flag in (*idle, *others) if f"  --{flag}\n" in out]


@pytest.mark.parametrize("command", NO_EFFECT)
def test_a_setup_flag_without_effect_is_accepted_with_a_warning(caplog, command):
    module = all_commands.load(command)
    for flag in NO_EFFECT[command][0]:
        caplog.clear()
        value = {"batch_size": "2", "mesh_shape": "rows:2", "layout": "x:rows", "mesh_impl": "stacked"}[flag]
        usage.parse_flags(command, module, [*module.EXAMPLE.split()[2:], f"--{flag}={value}"])
        (message,) = [record.getMessage() for record in caplog.records]
        assert message.startswith(f"--{flag} {value} has no effect: ")
    caplog.clear()
    usage.parse_flags(command, module, module.EXAMPLE.split()[2:])
    assert not caplog.records


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["predict", "--micro_batches=2"],
            "no flag '--micro_batches', which train, cross_validate, explain, search and bench have.",
        ),
        (
            ["evaluate", "--num_steps=2"],
            "evaluate has no flag '--num_steps', which train and cross_validate have. See",
        ),
        (["trian"], "there is no command 'trian'. Did you mean 'train'? Commands: phantom, inspect, convert,"),
        (["upload"], "there is no command 'upload'. "),
        (
            ["--seed=1", "train"],
            "the command comes first, but '--seed=1' is a flag: mtf-imaging COMMAND [flags]. Commands",
        ),
        (["--nonsense"], "the command comes first, but '--nonsense' is a flag"),
        (["--verison"], "COMMAND [flags]. Did you mean '--version'? Commands"),
        (["train", "--data-dir", "x"], "train has no flag '--data-dir'. Did you mean '--data_dir'?"),
        (["train", "--num_step=3"], "Did you mean '--num_steps'? See: mtf-imaging train --help"),
        (["train", "records"], "train takes only flags, but 'records' is not a flag."),
        (["train", "data_dir", "x"], "'data_dir' is not a flag. Did you mean '--data_dir'?"),
        (["train", "--gin.train.seed", "3"], "--gin.train.seed has no value. Fix: --gin.train.seed=3"),
        (
            ["phantom", "--output_dir=a", "--kind=small_lesion"],
            "--kind = 'small_lesion' is not known. Did you mean 'small_lesions'? Fix: choose one of large_",
        ),
        (["train", "--num_steps=many"], "--num_steps=many: 'many' is not an integer. See: mtf-imaging train --help"),
        (["train", "--average_decay=many"], "--average_decay=many: 'many' is not a number."),
        (["train"], "train needs --data_dir and --model_dir. Example: mtf-imaging train --data_dir records"),
        (["predict", "--model_dir=a", "--input=b"], "predict needs --output."),
        (["predict"], "predict needs --model_dir or --network, --input and --output."),
        (
            ["evaluate", "--model_dir=a", "--input_dir=b", "--output_dir=c", "--mesh_impl=stack"],
            "Did you mean 'stacked'?",
        ),
    ],
)
def test_errors_in_the_command_line_are_reported_in_one_line(capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("mtf-imaging: ")
    assert message in err
    assert all(line.startswith("On the command line: --") for line in err.splitlines()[1:])


def test_a_broken_layout_is_shown_with_a_caret(capsys):
    code, _, err = run(capsys, "train", "--data_dir=a", "--model_dir=b", "--layout=x:rows,y")
    assert code == 2
    assert "    x:rows,y\n           ^\n" in err


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (lambda: _raise(DataError("cases: nothing there.")), 1, "mtf-imaging: cases: nothing there.\n"),
        (lambda: _raise(ConfigError("wrong.")), 2, "mtf-imaging: wrong.\n"),
        (
            lambda: _raise(LayoutError("bad layout\n  In call to configurable 'f' (<function f at 0x7f>)")),
            2,
            "mtf-imaging: bad layout\n",
        ),
        (lambda: _raise(KeyboardInterrupt), 130, "mtf-imaging: interrupted.\n"),
        (lambda: _raise(BrokenPipeError(32, "Broken pipe")), 1, ""),
        (
            lambda: Path("/no/such/file").read_text(),
            1,
            "mtf-imaging: /no/such/file: No such file or directory. Fix: check the path.\n",
        ),
        (lambda: Path(__file__).mkdir(exist_ok=True), 1, f"mtf-imaging: {__file__}: File exists. {FOLDER}\n"),
        (lambda: _raise(OSError(28, "No space left on device")), 1, f"mtf-imaging: No space left on device. {ROOM}\n"),
        (lambda: _raise(OSError(30, "Read-only", "run/.lock")), 1, f"mtf-imaging: run/.lock: Read-only. {OTHER}\n"),
        (
            lambda: _raise(tensorflow_error("ResourceExhaustedError", "run/x; No space left on device")),
            1,
            f"mtf-imaging: run/x; No space left on device. {ROOM}\n",
        ),
        (
            lambda: _raise(tensorflow_error("PermissionDeniedError", "run/x; Read-only file system")),
            1,
            f"mtf-imaging: run/x; Read-only file system. {OTHER}\n",
        ),
        (
            lambda: _raise(tensorflow_error("NotFoundError", "r/a; No such file or directory")),
            1,
            "mtf-imaging: r/a; No such file or directory. Fix: check the path.\n",
        ),
        (lambda: _raise(Interrupted("SIGTERM: stopped.")), 75, "mtf-imaging: SIGTERM: stopped.\n"),
        (lambda: _raise(KeyboardInterrupt("Ctrl-C: stopped.")), 130, "mtf-imaging: Ctrl-C: stopped.\n"),
        (lambda: _raise(MemoryError("12 GB")), 1, f"mtf-imaging: out of memory. {FIX}\n  12 GB\n"),
    ],
)
def test_failures_are_reported_without_a_traceback(capsys, monkeypatch, failure, code, message):
    monkeypatch.setattr(all_commands.load("phantom"), "run", lambda values: failure())
    assert run(capsys, "phantom", "--output_dir=x") == (code, "", message)


@pytest.mark.parametrize(
    "error", [AssertionError("a bug"), tensorflow_error("InvalidArgumentError", "a bug")], ids=["python", "tensorflow"]
)
def test_a_bug_keeps_its_traceback(monkeypatch, error):
    monkeypatch.setattr(all_commands.load("phantom"), "run", lambda values: _raise(error))
    with pytest.raises(type(error), match="a bug"):
        main.main(["phantom", "--output_dir=x"])


def test_the_help_of_train_says_what_signals_do(capsys):
    _, out, _ = run(capsys, "train", "--help")
    text = " ".join(out.split())
    assert "SIGTERM, SIGUSR1, SIGHUP (a lost terminal) and Ctrl-C end the run: it finishes the current step" in text
    assert "exits with code 75 (130 for Ctrl-C). Start the same command again to resume" in text


def test_the_gin_short_form_keeps_its_place_among_gin_params():
    argv = ["--data_dir=a", "--model_dir=b", "--gin.f.x=1", "--gin_param=f.x=2", "--gin.f.y='a=b'"]
    values = usage.parse_flags("train", all_commands.load("train"), argv)
    assert isinstance(values, flags.FlagValues)
    assert values.gin_param == ["f.x=1", "f.x=2", "f.y='a=b'"]


def test_tensorflow_is_imported_in_silence(tmp_path):
    """Keras is not imported with TensorFlow, but at its first use."""
    program = (
        "import os, sys; from mtf_imaging.cli.runtime.quiet import import_tensorflow; import_tensorflow();"
        "import tensorflow as tf; tf.constant(1); os.write(2, b'seen')\n"
        "print('keras' in sys.modules, tf.keras.layers.Dense(3)(tf.ones([2, 2])).shape, 'keras' in sys.modules)"
    )
    environment = {"PATH": "", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert done.stderr.startswith(b"seen")
    assert done.stdout == b"False (2, 3) True\n"


def test_the_output_of_a_failed_import_is_shown():
    program = (
        "import os; from mtf_imaging.files.log_lines import without_log_lines\n"
        "with without_log_lines():\n    os.write(2, b'buffered'); raise SystemExit(3)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert (done.returncode, done.stderr) == (3, b"buffered")
