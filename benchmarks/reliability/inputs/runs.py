"""Folders of runs, checkpoints and configurations that are damaged, moved, foreign or hostile."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.reliability.files.nifti import SHAPE
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import PAYLOAD, BadInput, Outcome, Refused, Right
from benchmarks.reliability.inputs.lines import TRAIN

Edit = Callable[[Path], object]
_LINES = {
    "predict": "predict --model_dir {here}/run --input {good}/cases/volume-0.nii.gz --output {here}/out.nii.gz",
    "evaluate": "evaluate --model_dir {here}/run --input_dir {good}/cases --output_dir {here}/out",
    "export": "export --model_dir {here}/run --output {here}/model",
    "explain": "explain --model_dir {here}/run",
    "train": TRAIN.replace("{here}/DATA", "{good}/records").replace("--num_steps 2", "--num_steps 3"),
    "weights": TRAIN.replace("{here}/DATA", "{good}/records").replace("{here}/run", "{here}/new")
    + " --initial_weights {here}/run",
}
_RUN, _GIN, _FACTS = Refused("run"), Refused("config.gin"), Refused("run.json")


def _copied(*edits: Edit, name: str = "run") -> Callable[[Path, Path], None]:
    def make(good: Path, here: Path) -> None:
        shutil.copytree(good / "run", here / name)
        for edit in edits:
            edit(here / name)

    return make


def _file(name: str, change: Callable[[bytes], bytes]) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return edit


def _delete(pattern: str) -> Edit:
    def edit(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.unlink()

    return edit


def _json(name: str, **fields: object) -> Edit:
    return _file(name, lambda data: json.dumps(json.loads(data) | fields).encode())


def _text(name: str, text: str | bytes) -> Edit:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / name).write_bytes(data)


def _other_network(good: Path, here: Path) -> None:
    shutil.copytree(good / "run", here / "run")
    for path in (good / "photo_run").glob("ckpt-2.*"):
        shutil.copy(path, here / "run")


def _list_elsewhere(folder: Path) -> None:
    (folder / "checkpoint").write_text('model_checkpoint_path: "/somewhere/else/ckpt-9"\n')


def _module(folder: Path) -> None:
    """The configuration imports a module from the working folder, as an untrusted run may."""
    (folder.parent / "surprise.py").write_text(f"open({str(folder.parent / PAYLOAD)!r}, 'w')\n")
    _file("config.gin", lambda data: b"import surprise\n" + data)(folder)


_DATA, _INDEX = "ckpt-2.data-00000-of-00001", "ckpt-2.index"
_MARK = b"\xef\xbb\xbf"
_FAULTS: dict[str, tuple[Edit, tuple[Outcome, ...]]] = {
    "no configuration": (_delete("config.gin"), (_RUN,)),
    "an empty configuration": (_text("config.gin", ""), (_GIN, _RUN, Refused("job.task"))),
    "a configuration that is not gin": (_text("config.gin", "{'a': 1"), (_GIN,)),
    "an unknown parameter in the configuration": (
        _file("config.gin", lambda data: data + b"\nUNet3D.shade = 3\n"),
        (_GIN, Refused("shade")),
    ),
    "an unknown configurable": (
        _file("config.gin", lambda data: data + b"\nNothing.at_all = 3\n"),
        (_GIN, Refused("Nothing")),
    ),
    "a configuration that imports a missing module": (
        _file("config.gin", lambda data: b"import no_such_module\n" + data),
        (_GIN, Refused("no_such_module")),
    ),
    "a configuration that includes a missing file": (
        _file("config.gin", lambda data: b"include 'missing.gin'\n" + data),
        (_GIN, Refused("missing.gin")),
    ),
    "a value of another type": (
        _file("config.gin", lambda data: data + b"\nunet3d.UNet3D.depth = 'deep'\n"),
        (_GIN, Refused("depth")),
    ),
    "letters that are not UTF-8": (_file("config.gin", lambda data: b"# \xff\n" + data), (_GIN,)),
    "a configuration that is a folder": (
        lambda folder: ((folder / "config.gin").unlink(), (folder / "config.gin").mkdir()),
        (_GIN, _RUN),
    ),
    "no run.json": (_delete("run.json"), (_RUN, Right())),
    "an empty run.json": (_text("run.json", ""), (_FACTS,)),
    "run.json that is a list": (_text("run.json", "[]"), (_FACTS,)),
    "run.json nested 100,000 deep": (_text("run.json", "[" * 100_000), (_FACTS,)),
    "a resolution that is text": (_json("run.json", resolution="large"), (_FACTS, Right())),
    "a resolution that is a number": (_json("run.json", resolution=8), (_FACTS, Right())),
    "a spacing that is text": (_json("run.json", spacing="wide"), (_FACTS, Right())),
    "a field of a later version": (_json("run.json", novelty=1), (_FACTS, Right())),
    "no index of the checkpoint": (_delete(_INDEX), (_RUN,)),
    "no data of the checkpoint": (_delete(_DATA), (_RUN,)),
    "truncated data of the checkpoint": (_file(_DATA, lambda data: data[:100]), (Refused("ckpt-2"),)),
    "changed data of the checkpoint": (
        _file(_DATA, lambda data: bytes(byte ^ 1 if place % 50 == 0 else byte for place, byte in enumerate(data))),
        (Refused("ckpt-2"),),
    ),
    "an empty checkpoint": (_file(_DATA, lambda data: b""), (Refused("ckpt-2"),)),
    "a truncated index": (_file(_INDEX, lambda data: data[:40]), (Refused("ckpt-2"),)),
    "an index of other bytes": (_file(_INDEX, lambda data: b"\xff" * 500), (Refused("ckpt-2"),)),
    "no checkpoint": (_delete("ckpt-*"), (_RUN,)),
    "no list of checkpoints": (_delete("checkpoint"), (Right(), _RUN)),
    "an empty list of checkpoints": (_text("checkpoint", ""), (Right(), _RUN)),
    "a list of checkpoints elsewhere": (_list_elsewhere, (Right(), _RUN)),
    "a list of checkpoints of other bytes": (_text("checkpoint", b"\xff\xfe\x00"), (Right(), _RUN)),
    "an empty folder": (lambda folder: (shutil.rmtree(folder), folder.mkdir()), (_RUN,)),
    "a file in place of the folder": (lambda folder: (shutil.rmtree(folder), folder.write_text("run")), (_RUN,)),
    "no folder": (shutil.rmtree, (_RUN,)),
}
# The files that each command reads. train resumes a run, and starts a new one without a checkpoint.
_READ = {
    "predict": tuple(_FAULTS),
    "evaluate": ("no configuration", "an empty run.json", "truncated data of the checkpoint", "no checkpoint"),
    "export": (
        "no configuration",
        "an empty run.json",
        "truncated data of the checkpoint",
        "no index of the checkpoint",
        "no folder",
    ),
    "explain": (
        "a configuration that is not gin",
        "no folder",
        "an unknown parameter in the configuration",
        "an empty folder",
    ),
    "train": (
        *("a configuration that is not gin", "truncated data of the checkpoint", "an index of other bytes"),
        *("a file in place of the folder", "an empty run.json", "run.json nested 100,000 deep"),
    ),
    "weights": (
        "no checkpoint",
        "truncated data of the checkpoint",
        "no index of the checkpoint",
        "an empty folder",
        "no folder",
    ),
}
# A resumed training writes run.json again, from the records.
_WRITTEN_AGAIN = ("an empty run.json", "run.json nested 100,000 deep")


def _title(command: str, name: str) -> str:
    return f"{name}, for --initial_weights" if command == "weights" else name


INPUTS = [
    BadInput(
        "runs",
        _title(command, name),
        _LINES[command],
        _copied(_FAULTS[name][0]),
        (*_FAULTS[name][1], *((Right(),) if command == "train" and name in _WRITTEN_AGAIN else ())),
        writes="run" if command == "train" else "",
    )
    for command, names in _READ.items()
    for name in names
]
INPUTS += [
    BadInput("runs", "a checkpoint of another network", _LINES[command], _other_network, (Refused("ckpt-2"), _RUN))
    for command in ("predict", "export", "train")
]
INPUTS += [
    BadInput(
        "runs",
        "a byte order mark in the configuration",
        _LINES["predict"],
        _copied(_file("config.gin", lambda data: _MARK + data)),
        (Right(checks.prediction(SHAPE)),),
    ),
    BadInput(
        "runs",
        "a module of the working folder in the configuration",
        _LINES["predict"] + " --import_modules=False",
        _copied(_module),
        (Refused("surprise"),),
    ),
]
_WRITTEN = Right(checks.prediction(SHAPE))
INPUTS += [
    BadInput(
        "runs",
        _title(command, f"a folder of a run with {name}"),
        _LINES[command].replace("{here}/run", "{here}/{name}"),
        _copied(name=text),
        (right, Refused(text[:3])),
        writes=text if command == "train" else "",
        values={"name": text},
    )
    for name, text in (
        ("brackets", "run[lr=0.1]"),
        ("a backslash", "run\\1"),
        ("a star", "run*"),
        ("a question mark", "run?"),
        ("spaces", "my run"),
        ("letters", "Läufe"),
    )
    for command, right in (
        ("predict", _WRITTEN),
        ("export", Right(checks.has_files("model/saved_model.pb"))),
        ("train", Right(lambda here, text: "damaged" if "damaged" in text else "")),
        ("weights", Right(checks.has_files("new/config.gin"))),
    )
]
_GINS: dict[str, tuple[str | bytes, tuple[Outcome, ...]]] = {
    "that is not gin": ("setup.batch_size == 2\n", (Refused("mine.gin"),)),
    "with an unknown parameter": ("setup.batchsize = 2\n", (Refused("batchsize"),)),
    "with a byte order mark": (_MARK + b"setup.batch_size = 1\n", (Right(),)),
    "in UTF-16": ("setup.batch_size = 1\n".encode("utf-16"), (Refused("mine.gin"), Right())),
    "with letters that are not UTF-8": (b"# \xff\nsetup.batch_size = 1\n", (Refused("mine.gin"), Right())),
    "that imports a missing module": ("import no_such_module\n", (Refused("no_such_module"),)),
    "that imports a module with an error": ("import bad_module\n", (Refused("bad_module"),)),
    "that includes itself": ("include 'mine.gin'\n", (Refused("mine.gin"),)),
    "with a negative batch size": ("setup.batch_size = -1\n", (Refused("batch_size"),)),
    "with a batch size that is text": ("setup.batch_size = 'two'\n", (Refused("batch_size"),)),
    "with a layout of an unknown dimension": (
        "setup.mesh_shape = 'rows:2'\nsetup.layout = 'w:rows'\n",
        (Refused("w:rows"), Refused("'w'")),
    ),
    "with a macro that is not defined": ("setup.batch_size = %missing\n", (Refused("missing"),)),
    "with a learning rate of NaN": (
        "Adam.learning_rate = float('nan')\n",
        (Refused("mine.gin"), Refused("learning_rate")),
    ),
}


def _gin(content: str | bytes) -> Callable[[Path, Path], None]:
    def make(good: Path, here: Path) -> None:
        (here / "mine.gin").write_bytes(content.encode() if isinstance(content, str) else content)
        (here / "bad_module.py").write_text("1 / 0\n")

    return make


INPUTS += [
    BadInput("runs", f"a gin file {name}", line, _gin(content), outcomes)
    for name, (content, outcomes) in _GINS.items()
    for line in (
        "explain --gin_file unet3d_demo --gin_file {here}/mine.gin --resolution 16",
        _LINES["weights"].replace(" --initial_weights {here}/run", "") + " --gin_file {here}/mine.gin",
    )
]
