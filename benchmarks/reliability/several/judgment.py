"""Judges how processes ended after a fault in some of them."""

import signal
from collections.abc import Collection, Sequence

from benchmarks.reliability.several.group import End
from benchmarks.reliability.several.moments import END, FIRST_CONTACT, IMPORT
from benchmarks.reliability.several.run import last_words
from benchmarks.reliability.several.trials import Trial
from mtf_imaging.cli.runtime.failures import INTERRUPTED

CTRL_C, FAILED, WRONG = 130, 1, 2  # exit codes
_SIGNALS = ("SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT")
_HEARD = "the run saves a checkpoint after this step and ends"


def judge(trial: Trial, ends: Sequence[End], struck: Collection[int]) -> str:
    """Returns the fault in how the processes of a trial ended, or "".

    Args:
      trial: the trial.
      ends: the ends of all processes.
      struck: the numbers of the processes that got the signal; others may have ended before their moment.
    """
    if not struck and trial.moment != END:
        return "the moment did not come"
    if all(end.code == 0 for end in ends) and _may_finish(trial):
        deaf = [end for end in ends if end.index in struck and _HEARD not in end.text]
        if deaf and trial.signal in _SIGNALS and trial.moment != END:
            return f"process {deaf[0].index}: the signal had no effect: {last_words(deaf[0].text)}"
        struck = ()
    for end in ends:
        if reason := _judge_one(trial, end, struck):
            return f"process {end.index}: {reason}: {last_words(end.text)}"
    return ""


def names(text: str, indices: Collection[int]) -> bool:
    """Returns whether a message names one of some processes, with its address."""
    return any(f"process {index} (127.0.0.1:" in text for index in indices)


def explains(end: End, indices: Collection[int]) -> str:
    """Returns the fact missing in the message of a process that failed because of others, or "".

    Args:
      end: the end of the process.
      indices: the numbers of the processes at fault.
    """
    if not names(end.text, indices):
        return f"the message does not name process {' or '.join(map(str, sorted(indices)))}"
    return "" if "Fix:" in end.text else "the message has no fix"


def is_untidy(end: End) -> str:
    """Returns the reason that the end of a process is never correct, or ""."""
    if end.code is None:
        return "it still runs"
    return "it ended in a traceback" if "Traceback" in end.text else ""


def _may_finish(trial: Trial) -> bool:
    """Returns whether all processes may reach the end of the run in spite of the signal.

    They agree on a stop about twice a second, so the last steps may come first.
    """
    is_late = trial.moment not in (IMPORT, FIRST_CONTACT)
    return trial.is_short or trial.moment == END or (trial.signal in _SIGNALS and is_late)


def _judge_one(trial: Trial, end: End, struck: Collection[int]) -> str:
    is_struck, code = end.index in struck, end.code
    never_ends = is_struck and trial.signal == "SIGSTOP" and trial.pause is None
    if code == 0 and (not struck or trial.is_short or trial.moment == END):
        return is_untidy(end)
    if never_ends:
        return ""  # killed by the harness
    if reason := is_untidy(end):
        return reason
    if not struck or trial.is_short:
        return f"exit code {code} instead of 0"
    if trial.is_deadly:
        expected = {-trial.number} if is_struck else {FAILED}
    elif trial.signal in _SIGNALS:
        expected = _stopped_codes(trial, is_struck)
    else:
        expected = {FAILED}
    if code not in expected:
        return f"exit code {code} instead of {' or '.join(map(str, sorted(expected)))}"
    if code == FAILED:
        # If all processes were stopped, each of them may name any other.
        at_fault = range(trial.num) if is_struck else struck
        return explains(end, at_fault)
    if code == INTERRUPTED and trial.when.has_stepped and "Start the run again to resume it" not in end.text:
        return "the message does not say that the run can resume"
    return ""


def _stopped_codes(trial: Trial, is_struck: bool) -> set[int]:
    """Returns the exit codes after a signal that asks a process to stop."""
    own = CTRL_C if trial.number == signal.SIGINT else INTERRUPTED
    if not is_struck:
        # Before the first step, a process ends at once, and the others report it as lost.
        return {INTERRUPTED} if trial.when.has_stepped else {FAILED, INTERRUPTED}
    is_early = trial.moment == IMPORT and trial.number != signal.SIGINT  # Python handles Ctrl-C from the start
    return {own, -trial.number} if is_early or trial.moment == END else {own}
