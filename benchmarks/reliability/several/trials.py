"""The drawn trials: the number of processes, which of them get a signal, when, and how many resume the run."""

import dataclasses
import random
import signal
from collections.abc import Sequence

from benchmarks.reliability.several.moments import BY_NAME, MOMENTS, Moment
from benchmarks.reliability.several.run import MOST

_STOP, _SHORT, _LONG, _FOREVER = "SIGSTOP", 0.4, 1.6, None  # pauses in timeouts
# (signal, time until SIGCONT for SIGSTOP).
SIGNALS: tuple[tuple[str, float | None], ...] = (
    *((name, None) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP", "SIGSEGV", "SIGABRT")),
    *((_STOP, pause) for pause in (_SHORT, _LONG, _FOREVER)),
)
_NUMBERS = (2, 3, 3, 4, 4)
_ALL = 1 / 6  # share of trials that strike all processes


@dataclasses.dataclass(frozen=True)
class Trial:
    """A signal to some processes of a training at one moment, after which the run resumes.

    Attributes:
      num: number of processes.
      signal: the name of the signal.
      pause: timeouts between SIGSTOP and SIGCONT; None if a stopped process never continues.
      struck: the numbers of the processes that get the signal.
      moment: the name of the moment.
      point: the place in the code; see `Moment`.
      call: the number of the call.
      delay_s: seconds between the call and the signal.
      resumed: number of processes that resume the run.
    """

    num: int
    signal: str
    pause: float | None
    struck: tuple[int, ...]
    moment: str
    point: str
    call: int
    delay_s: float
    resumed: int

    @property
    def is_deadly(self) -> bool:
        """Whether the processes cannot react to the signal."""
        return self.signal in ("SIGKILL", "SIGSEGV", "SIGABRT")

    @property
    def is_short(self) -> bool:
        """Whether the processes continue before the others count them as lost."""
        return self.signal == _STOP and self.pause is not None and self.pause < 1

    @property
    def number(self) -> int:
        """The number of the signal."""
        return getattr(signal, self.signal)

    @property
    def when(self) -> Moment:
        """The moment."""
        return BY_NAME[self.moment]

    def __str__(self) -> str:
        pause = "" if self.signal != _STOP else " for good" if self.pause is None else f" for {self.pause:g} timeouts"
        return f"{self.signal}{pause}"


def draw(seed: int, number: int) -> list[Trial]:
    """Returns random trials; signals and moments take turns, so that all of them occur.

    Args:
      seed: the seed; equal seeds give equal trials.
      number: number of trials.
    """
    draw = random.Random(seed)
    signals, moments = (_turns(draw, options, number) for options in (SIGNALS, MOMENTS))
    return [_draw_one(draw, name, pause, moment) for (name, pause), moment in zip(signals, moments)]


def _draw_one(draw: random.Random, name: str, pause: float | None, moment: Moment) -> Trial:
    num = draw.choice(_NUMBERS)
    others_continue = name == _STOP and pause is None  # another process must notice
    struck = tuple(range(num)) if not others_continue and draw.random() < _ALL else (draw.randrange(num),)
    call, delay = draw.randint(1, moment.most_calls), round(draw.uniform(0, moment.longest_s), 4)
    point = draw.choice(moment.points)
    return Trial(num, name, pause, struck, moment.name, point, call, delay, resumed=draw.randint(1, MOST))


def _turns(draw: random.Random, options: Sequence, number: int) -> list:
    """Returns `number` options in random order; their frequencies differ by at most one."""
    turns: list = []
    while len(turns) < number:
        turns += draw.sample(options, len(options))
    return turns[:number]
