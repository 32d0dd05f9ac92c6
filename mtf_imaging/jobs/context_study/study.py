"""Runs the context study: writes and converts the cases, trains all contenders, and writes the results."""

import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.errors import ConfigError
from mtf_imaging.files.workers import end_with_parent, worker_pool
from mtf_imaging.jobs.context_study.contenders import WHOLE, Contender, find_contenders
from mtf_imaging.jobs.context_study.running import Trainings, run_trainings
from mtf_imaging.jobs.study_folder import keep_settings
from mtf_imaging.settings.data import PHANTOMS, STEPS_OF_PHANTOMS, StudyCases
from mtf_imaging.spelling import did_you_mean

if TYPE_CHECKING:
    from mtf_imaging.evaluation.context_study import Run
    from mtf_imaging.settings.training import TrainSettings

_SPACING_MM, _MULTIPLE = 1.0, 4  # of a phantom
_SEED = 1  # of a phantom


@dataclasses.dataclass(frozen=True)
class _Cases:
    """The cases of one part of a study.

    Attributes:
      name: the name of the part: a kind of phantom, or "cases".
      folder: folder of the records and results.
      train: folder of the cases to train on.
      held_out: folder of the held-out cases.
    """

    name: str
    folder: Path
    train: Path
    held_out: Path

    def records(self, contender: Contender) -> Path:
        """Returns the records folder of a contender."""
        return self.folder / f"records_{contender.coarser}"

    def results(self, contender: Contender) -> Path:
        """Returns the results folder of a contender."""
        return self.folder / contender.name

    def result(self, contender: Contender, seed: int) -> dict[str, Any] | None:
        """Returns the result of a training run; None if it is not finished."""
        path = self.results(contender) / f"{seed}.json"
        return json.loads(path.read_text()) if path.is_file() else None


def run_context_study(
    own: StudyCases, make: "Callable[[Path], TrainSettings]", settings: dict, num_steps: int | None
) -> "list[Run]":
    """Trains every contender with every seed on the same cases, and writes `context.csv`, `.md` and `.png`.

    An interrupted study resumes: finished training runs are kept.

    Args:
      own: the cases, contenders and seeds.
      make: a function that returns the training settings for a records folder; called in the training process.
      settings: the settings that all runs of the study share, as a JSON object.
      num_steps: the budget in steps; None for `STEPS_OF_PHANTOMS`, or the job's number for other cases.

    Returns:
      The courses of all training runs.

    Raises:
      ConfigError: an argument is invalid, or the folder contains a study with other settings.
      DataError: a case is unusable.
    """
    out, contenders = Path(own.output_dir), find_contenders(own.contenders)
    _check(own)
    keep_settings(out, settings, "phantoms, contenders and seeds")
    parts = [_own_cases(own, out)] if own.input_dir else [_phantoms(own, out, kind) for kind in own.phantoms]
    for part in parts:
        for contender in {contender.coarser: contender for contender in contenders}.values():
            _convert(own, part, contender)
    whole, *others = contenders
    lock = threading.Lock()

    def finish() -> None:
        with lock:
            _write(own, parts, contenders)

    def train(part: _Cases, contender: Contender, core: int | None) -> None:
        seeds = tuple(seed for seed in own.seeds if part.result(contender, seed) is None)
        if not seeds:
            return
        budgets = {}
        if contender.name != WHOLE:
            wholes = {seed: part.result(whole, seed) for seed in seeds}
            budgets = {seed: result["at_steps"]["cpu_seconds"] for seed, result in wholes.items() if result}
        folders = part.records(contender), part.held_out, part.results(contender)
        table = own.spacing_table
        steps = num_steps or STEPS_OF_PHANTOMS.get(part.name)
        _in_new_process(Trainings(contender, *folders, seeds, steps, budgets, make, table, core, own.progress))
        finish()

    for stage in ([whole], others):
        _in_turn([(part, contender) for part in parts for contender in stage], train, own.workers)
    runs = _write(own, parts, contenders)
    if own.progress:
        print(f"\n{(out / 'context.md').read_text()}\nPicture: {out / 'context.png'}\nTable: {out / 'context.csv'}")
    return runs


def _check(own: StudyCases) -> None:
    """Checks the arguments before anything is written."""
    for kind in own.phantoms:
        if kind not in PHANTOMS:
            raise ConfigError(
                f"phantoms '{kind}' are not known.{did_you_mean(kind, PHANTOMS)} "
                f"Fix: choose from {', '.join(PHANTOMS)}.",
                ["phantoms"],
            )
    if own.held_out_dir and not own.input_dir:
        raise ConfigError("held_out_dir requires a folder of training cases. Fix: give it as input_dir.", ["input_dir"])
    if own.input_dir and not own.spacing:
        raise ConfigError("a study of context needs the voxel size of the cases. Fix: give it as spacing.", ["spacing"])
    if own.spacing and not own.input_dir:
        raise ConfigError(
            f"spacing = {own.spacing!r} has no effect on phantoms, whose voxels measure 1 mm. Fix: leave it out, or "
            "give cases as input_dir.",
            ["spacing"],
        )
    for name, folder in {"input_dir": own.input_dir, "held_out_dir": own.held_out_dir}.items():
        if folder:
            from mtf_imaging.kinds.all_kinds import check_volumes  # imports NumPy

            check_volumes(folder, "a study resamples volumes; train on {kind} once per size of the crops.", name)


def _own_cases(own: StudyCases, out: Path) -> _Cases:
    """Returns the given cases; every fourth one is held out unless there is a folder of held-out cases."""
    folder = out / "cases"
    if own.held_out_dir:
        return _Cases("cases", folder, Path(own.input_dir or ""), Path(own.held_out_dir))
    from mtf_imaging.data.cases.hold_out import hold_out  # imports NumPy

    train, held_out = folder / "train", folder / "held_out"
    hold_out(Path(own.input_dir or ""), train, held_out)
    return _Cases("cases", folder, train, held_out)


def _phantoms(own: StudyCases, out: Path, kind: str) -> _Cases:
    """Writes the phantoms of one kind, and returns them."""
    from mtf_imaging.data.phantom import write_phantom  # imports NumPy

    folder = out / kind
    part = _Cases(kind, folder, folder / "train", folder / "held_out")
    num_held_out = max(1, own.cases_to_write // 6)
    num_train = own.cases_to_write - num_held_out
    write_phantom(part.train, num_train, _SEED, kind=kind)
    write_phantom(part.held_out, num_held_out, _SEED, first_case=num_train, kind=kind)
    return part


def _convert(own: StudyCases, part: _Cases, contender: Contender) -> None:
    """Converts the cases to the records of a contender, unless they exist."""
    from mtf_imaging.data.sampling.sampling import parse_spacing  # these import NumPy
    from mtf_imaging.jobs.converting import convert

    if (part.records(contender) / "dataset.json").is_file():
        return
    spacing = parse_spacing(own.spacing or _SPACING_MM)
    assert spacing is not None, "it is not an empty string"
    x, y, z = (mm * contender.coarser for mm in spacing)
    options: dict[str, Any] = {"spacing_table": own.spacing_table, "progress": own.progress, "workers": own.workers}
    options |= {
        "input_dir": part.train,
        "output_dir": part.records(contender),
        "multiple": own.multiple or (None if own.input_dir else _MULTIPLE),
    }
    convert(spacing=(x, y, z), **options)


def _in_turn(
    jobs: Iterable[tuple[_Cases, Contender]],
    train: Callable[[_Cases, Contender, int | None], None],
    workers: int | None,
) -> None:
    """Runs jobs in parallel, each on its own core; if one fails, ends the others."""
    cores: queue.Queue[int | None] = queue.Queue()
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    for core in usable[: workers or len(usable)]:
        cores.put(core)

    def run(job: tuple[_Cases, Contender]) -> None:
        core = cores.get()
        try:
            train(*job, core)
        finally:
            cores.put(core)

    before = set(multiprocessing.active_children())
    pool = concurrent.futures.ThreadPoolExecutor(cores.qsize())
    try:
        for future in concurrent.futures.as_completed([pool.submit(run, job) for job in jobs]):
            future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _in_new_process(trainings: Trainings) -> None:
    """Runs the training in a separate process if possible."""
    pool = worker_pool(1, _begin)
    if pool is None:
        run_trainings(dataclasses.replace(trainings, core=None))
        return
    with pool as process:
        process.submit(run_trainings, trainings).result()


def _begin() -> None:
    """Prepares a process: Ctrl-C reaches all processes, but only the parent reacts, and ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _write(own: StudyCases, parts: list[_Cases], contenders: list[Contender]) -> "list[Run]":
    """Writes the results of the finished training runs, and returns them."""
    from mtf_imaging.evaluation.context_study import read_run, write_study

    runs = [
        read_run(part.name, contender.name, contender.title, result)
        for part in parts
        for contender in contenders
        for seed in own.seeds
        if (result := part.result(contender, seed))
    ]
    if runs:
        write_study(own.output_dir, runs)
    return runs
