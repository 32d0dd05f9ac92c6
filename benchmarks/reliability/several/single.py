"""Single trials: different, missing or duplicate peers, occupied ports, and clocks that jump."""

import contextlib
import dataclasses
import json
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import mtf_imaging
from benchmarks.reliability.results import ROOT
from benchmarks.reliability.several import clock
from benchmarks.reliability.several.group import Change, End, Group, environments
from benchmarks.reliability.several.judgment import FAILED, WRONG, is_untidy
from benchmarks.reliability.several.moments import BY_NAME
from benchmarks.reliability.several.run import RECORDS, Training, find_half_written, last_words
from benchmarks.reliability.several.struck import Strike
from mtf_imaging.cli.runtime.failures import INTERRUPTED
from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.probing import silence

_LIMIT = 10.0  # timeouts from the start of the processes to the end of the last one
_STEP = BY_NAME["step"].points[0]


@dataclasses.dataclass(frozen=True)
class Scene:
    """A training whose processes have not started.

    Attributes:
      training: the training.
      place: the working folder.
      variables: the environment variables of each process.
      odd: the number of the process at fault.
    """

    training: Training
    place: Path
    variables: Sequence[Mapping[str, str]]
    odd: int

    @property
    def model_dir(self) -> Path:
        """The run folder."""
        return self.place / "run"

    @property
    def address(self) -> tuple[str, int]:
        """The address of the process at fault."""
        cluster = json.loads(self.variables[self.odd]["TF_CONFIG"])["cluster"]
        host, _, port = cluster["worker"][self.odd].rpartition(":")
        return host, int(port)

    def is_open(self) -> bool:
        """Returns whether the process at fault has opened its port."""
        return silence(Address(*self.address), 1.0) is None


@dataclasses.dataclass(frozen=True)
class Single:
    """One fault.

    Attributes:
      num: number of processes.
      fault: prepares a `Scene`, and yields the `Change` of the process at fault; None if it is not started.
      own: the exit code of the process at fault, and words in its message.
      others: the same for the others. ODD stands for the name of the process at fault.
      during: a function that is called while the processes run; returns the fault, or "".
      missing: a function that returns the reason that the fault cannot be tried here, or "".
    """

    num: int
    fault: Callable[[Scene], contextlib.AbstractContextManager[Change | None]]
    own: tuple[int, str]
    others: tuple[int, str]
    during: Callable[[Scene, Group], str] = lambda scene, group: ""
    missing: Callable[[], str] = lambda: ""


def run_single(training: Training, name: str, place: Path) -> dict[str, object]:
    """Runs a trial, and returns its part of the results row.

    Args:
      training: the training.
      name: the name of the fault.
      place: a folder that does not exist; it is kept if the trial fails.
    """
    row: dict[str, object] = dict.fromkeys(("moment", "place", "struck", "codes", "resumed", "ended_s"), "")
    if name == ELASTIC:
        row |= {"processes": " ".join(map(str, _COUNTS)), "fault": "SIGTERM", "moment": "step"}
        return row | _run_elastic(training, place)
    single = SINGLE[name]
    row |= {"processes": single.num, "fault": name}
    if why := single.missing():
        return row | {"outcome": "skipped", "reason": why}
    scene = Scene(training, training.place(place), environments(single.num, training.timeout), odd=1)
    began = time.monotonic()
    with single.fault(scene) as change:
        words = training.words(single.num, scene.model_dir)
        with Group(words, scene.variables, place, {scene.odd: change}) as group:
            reason = single.during(scene, group)
            group.wait(_LIMIT * training.timeout)
            seconds, ends = time.monotonic() - began, group.ends()
    reason = reason or _judge(single, scene, ends)
    if not reason and (half := find_half_written(scene.model_dir)):
        reason = f"{half} has its final name, but is not whole"
    is_complete = all(end.code == 0 for end in ends)
    if not reason and not is_complete and (why := training.complete(single.num, scene.model_dir, place)):
        reason = f"resumed: {why}"
    reason = reason or training.find_difference(scene.model_dir, single.num, exact=True)
    row |= {"struck": scene.odd, "codes": " ".join(str(end.code) for end in ends), "ended_s": f"{seconds:.1f}"}
    row |= {"resumed": "" if is_complete else single.num}
    return row | _outcome(reason, place)


def _judge(single: Single, scene: Scene, ends: Sequence[End]) -> str:
    odd = f"process {scene.odd} ({':'.join(map(str, scene.address))})"
    for end in ends:
        code, text = single.own if end.index == scene.odd else single.others
        text = text.replace("ODD", odd)
        reason = is_untidy(end)
        if not reason and end.code != code:
            reason = f"exit code {end.code} instead of {code}"
        if not reason and text not in end.text:
            reason = f"the message has no '{text}'"
        if not reason and code in (FAILED, WRONG) and "Fix:" not in end.text:
            reason = "the message has no fix"
        if reason:
            return f"process {end.index}: {reason}: {last_words(end.text)}"
    return ""


def _outcome(reason: str, place: Path) -> dict[str, object]:
    if not reason:
        shutil.rmtree(place)
    return {"outcome": "failed" if reason else "equal", "reason": reason}


@contextlib.contextmanager
def _same(scene: Scene) -> Iterator[Change]:
    yield Change()


@contextlib.contextmanager
def _absent(scene: Scene) -> Iterator[None]:
    yield None


def _stolen(kind: socket.SocketKind) -> Callable[[Scene], contextlib.AbstractContextManager[Change]]:
    """Occupies the process's port after it was chosen, as another program may."""

    @contextlib.contextmanager
    def steal(scene: Scene) -> Iterator[Change]:
        with socket.socket(socket.AF_INET, kind) as thief:
            thief.bind(scene.address)
            if kind == socket.SOCK_STREAM:
                thief.listen()
            yield Change()

    return steal


@contextlib.contextmanager
def _other_code(scene: Scene) -> Iterator[Change]:
    """Lets the process import a copy of the package with one more line."""
    copy = scene.place / "code"
    shutil.copytree(Path(mtf_imaging.__file__).parent, copy / "mtf_imaging")
    with open(copy / "mtf_imaging/training/step.py", "a") as file:
        file.write("OTHER = True\n")
    yield Change(environment={"PYTHONPATH": f"{copy}:{ROOT}"})


def _other_records(change: Callable[[Path], None]) -> Callable[[Scene], contextlib.AbstractContextManager[Change]]:
    """Gives the process its own copy of the records, under the same relative path."""

    @contextlib.contextmanager
    def copy(scene: Scene) -> Iterator[Change]:
        folder = scene.place / "other"
        shutil.copytree(scene.training.folder / RECORDS, folder / RECORDS)
        change(folder / RECORDS)
        yield Change(folder=folder)

    return copy


def _without_case(records: Path) -> None:
    path = records / "dataset.json"
    manifest = json.loads(path.read_text())
    shutil.rmtree(records / f"case-{manifest['cases'].pop()['case']}.ome.zarr")
    path.write_text(json.dumps(manifest))


def _damaged(records: Path) -> None:
    """Changes one byte of a case's image."""
    path = min(path for path in records.glob("*.ome.zarr/0/**/*") if path.is_file() and path.name != "zarr.json")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _converted_again(records: Path) -> None:
    """Changes the digest of a case, as `convert` does if one voxel of its image differs."""
    path = records / "dataset.json"
    manifest = json.loads(path.read_text())
    manifest["cases"][0]["digest"] = manifest["cases"][0]["digest"][::-1]
    path.write_text(json.dumps(manifest))


@contextlib.contextmanager
def _other_flag(scene: Scene) -> Iterator[Change]:
    yield Change(more=("--gin.Adam.learning_rate=0.02",))


def _start_twice(scene: Scene, group: Group) -> str:
    """Starts the process a second time; the second one must refuse to run."""
    _wait_for(scene.is_open, group)
    return _start_again(scene, (WRONG, f"port {scene.address[1]} is in use on this host"))


@contextlib.contextmanager
def _killed(scene: Scene) -> Iterator[Change]:
    strike = Strike(_STEP, 4, 0.0, signal.SIGKILL, str(scene.place / "struck"))
    yield Change(strike.words())


def _replace(scene: Scene, group: Group) -> str:
    """Restarts only the killed process, as a scheduler may; it must end, too."""
    _wait_for(lambda: scene.odd not in group.running(), group)
    return _start_again(scene, (FAILED, "Fix:"))


def _start_again(scene: Scene, expected: tuple[int, str]) -> str:
    """Starts the process at fault again without the others, and returns the fault in how it ended, or ""."""
    folder = scene.training.place(scene.place / "again")
    words = scene.training.words(len(scene.variables), scene.model_dir)
    others = {index: None for index in range(len(scene.variables)) if index != scene.odd}
    with Group(words, scene.variables, folder, others) as again:
        again.wait(_LIMIT * scene.training.timeout)
        (end,) = again.ends()
    code, text = expected
    if (reason := is_untidy(end)) or end.code != code or text not in end.text:
        return f"started again: {reason}: exit code {end.code}: {last_words(end.text)}"
    return ""


def _jump(seconds: int) -> Callable[[Scene, Group], str]:
    """Returns a function that changes the clock before the first exchange, and resets it after the first step."""

    def jump(scene: Scene, group: Group) -> str:
        _wait_for(scene.is_open, group)
        clock.set_offset(scene.place, seconds)
        _wait_for(lambda: (scene.model_dir / "losses.csv").exists(), group)
        clock.set_offset(scene.place, 0)
        return ""

    return jump


@contextlib.contextmanager
def _with_clock(scene: Scene) -> Iterator[Change]:
    yield Change(("benchmarks.reliability.several.sleepless",), environment=clock.environment(scene.place))


def _wait_for(condition: Callable[[], bool], group: Group) -> None:
    """Waits for a condition, or for the end of a process."""
    num = len(group.running())
    while not condition() and len(group.running()) == num:
        time.sleep(0.01)


_DISAGREE = "the processes disagree about {}: ODD differs from process 0 "
_LOST = (FAILED, "lost ODD")
_LATE = (FAILED, "1 of {} processes did not start within")


def _disagreement(num: int, fault: Callable, about: str) -> Single:
    both = WRONG, _DISAGREE.format(about)
    return Single(num, fault, both, both)


SINGLE = {
    "stolen TCP port": Single(3, _stolen(socket.SOCK_STREAM), (WRONG, "is in use on this host"), (FAILED, "ODD: ")),
    "stolen UDP port": Single(4, _stolen(socket.SOCK_DGRAM), (WRONG, "is in use on this host"), (FAILED, "ODD: ")),
    "clock + 1 h": Single(3, _with_clock, (0, ""), (0, ""), _jump(3600), clock.find_missing),
    "clock - 1 h": Single(4, _with_clock, (0, ""), (0, ""), _jump(-3600), clock.find_missing),
    "other code": _disagreement(3, _other_code, "the code of this package"),
    "other images": _disagreement(4, _other_records(_converted_again), "the training data"),
    "other cases": _disagreement(3, _other_records(_without_case), "the training data"),
    "other byte": Single(3, _other_records(_damaged), (FAILED, "its digest does not match"), (FAILED, "lost ODD")),
    "other configuration": _disagreement(4, _other_flag, "the configuration"),
    "never started": Single(4, _absent, (0, ""), (FAILED, "1 of 4 processes did not start within")),
    "started twice": Single(3, _same, (0, ""), (0, ""), _start_twice),
    "started again alone": Single(3, _killed, (-signal.SIGKILL, ""), _LOST, _replace),
}
ELASTIC = "4, 3, 2 and 1 processes"
_COUNTS = (4, 3, 2, 1)
NAMES = (*SINGLE, ELASTIC)


def _run_elastic(training: Training, place: Path) -> dict[str, object]:
    """Stops one process of four in the second step, and resumes with three, two and one processes in the same way."""
    model_dir, codes, reason, began = training.place(place) / "run", [], "", time.monotonic()
    for num in _COUNTS[:-1]:
        strike = Strike(_STEP, 2, 0.0, signal.SIGTERM, str(place / f"struck-{num}"))
        changes = {num - 1: Change(strike.words())}
        with Group(training.words(num, model_dir), environments(num, training.timeout), place, changes) as group:
            group.wait(_LIMIT * training.timeout)
            ends = group.ends()
        codes += [end.code for end in ends]
        wrong = [end for end in ends if is_untidy(end) or end.code != INTERRUPTED]
        if wrong:
            reason = f"{num} processes: exit code {wrong[0].code}: {last_words(wrong[0].text)}"
            break
    reason = reason or training.complete(1, model_dir, place)
    reason = reason or training.find_difference(model_dir, 1, exact=False)
    seconds = f"{time.monotonic() - began:.1f}"
    return {"codes": " ".join(map(str, codes)), "resumed": 1, "ended_s": seconds} | _outcome(reason, place)
