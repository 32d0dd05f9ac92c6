"""The moments of a training at which a fault can strike a process."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Moment:
    """A moment of a training run.

    Attributes:
      name: the activity of the process.
      points: places in the code, one of which is drawn: "module:function", or "module" for its import.
      most_calls: the fault follows one of the first calls to the function.
      longest_s: the longest delay after the call.
      has_stepped: whether the first step has begun, so that a signal makes all processes stop together.
    """

    name: str
    points: tuple[str, ...]
    most_calls: int = 1
    longest_s: float = 0.0
    has_stepped: bool = False


IMPORT, FIRST_CONTACT, HELD_OUT, END = "import", "first contact", "held-out cases", "end"
_CHECKPOINTS = "mtf_imaging.training.checkpoints.checkpoints"
MOMENTS = (
    Moment(IMPORT, ("tensorflow", "tensorflow.python.ops.math_ops", "mtf_imaging.jobs.training")),
    Moment(FIRST_CONTACT, ("mtf_imaging.engine.processes.peers:Peers.meet",), longest_s=0.4),
    Moment(
        "before the first step",
        tuple(f"mtf_imaging.jobs.training:{name}" for name in ("check_agreement", "build_steps", "open_batches")),
        longest_s=0.4,
    ),
    Moment("step", ("mtf_imaging.training.loop:_compute",), most_calls=8, longest_s=0.02, has_stepped=True),
    Moment("checkpoint", (f"{_CHECKPOINTS}:Checkpoints.save",), most_calls=3, longest_s=0.02, has_stepped=True),
    Moment(
        HELD_OUT,
        ("mtf_imaging.training.observers.evaluator:Evaluator._run",),
        most_calls=2,
        longest_s=0.1,
        has_stepped=True,
    ),
    Moment(END, (f"{_CHECKPOINTS}:Checkpoints.close",), longest_s=0.1, has_stepped=True),
)
BY_NAME = {moment.name: moment for moment in MOMENTS}
