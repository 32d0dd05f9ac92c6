"""After one step and after ten, the whole state of a training equals that of Keras, under every layout."""

import functools

import numpy as np
import pytest

from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from tests.training.state_oracle import Config, batches, train

STEPS, SAVED = 10, 4
LAYOUTS = {
    "whole": ("",),
    "split": ("x:rows,batch:cores", "rows:2,cores:2", "placement"),
    "uneven": ("x:rows,channels:cols", "rows:4,cols:2", "stacked"),
}
STEM = ("conv/filter", "norm/scale", "norm/offset")
CONFIGS = {
    "sgd": Config(nesterov=True, weight_decay=0.1, clip_norm=0.5, average_decay=0.3),
    "adam": Config("adam", clip_norm=0.5, average_decay=0.9),
    "micro-batches": Config(micro_batches=2, clip_norm=0.5, average_decay=0.9),
    "recompute": Config("adam", micro_batches=2, recompute=True),
    "frozen layers": Config("adam", frozen="conv,norm", frozen_weights=STEM, keeps_statistics=True, average_decay=0.9),
    "frozen scale": Config("adam", frozen="norm/scale", frozen_weights=("norm/scale",)),
    "frozen mean": Config(frozen="norm/moving_mean", keeps_statistics=True),
    "frozen variance": Config(frozen="norm/moving_variance", keeps_statistics=True),
    "bfloat16": Config(dtype="bfloat16", clip_norm=0.5, average_decay=0.9),
}
# (of the loss and of slots, of other values), relative to the largest value. bfloat16 has 8 significant bits.
TOLERANCES = {"float64": (1e-9, 1e-9), "bfloat16": (1e-1, 1e-2)}
# (settings, layout, layout after a resumption or None)
ROWS = [(name, layout, None) for name in CONFIGS for layout in LAYOUTS]
ROWS += [("micro-batches", "whole", "split"), ("adam", "uneven", "whole"), ("frozen layers", "split", "uneven")]
FAST = [("sgd", "split", None), ("adam", "uneven", None), ROWS[-3]]
FAST += [(f"frozen {statistic}", "whole", None) for statistic in ("mean", "variance")]


def state_of(program):
    return {name: v.numpy() for name, v in program.variables.items()} | {"step": np.int64(program.step)}


@functools.cache
def expected(name):
    """Returns the losses and states of a training in Keras."""
    return train(CONFIGS[name], STEPS)


def check(name, step, loss, state):
    """Compares the loss of a step, and the state after it, with Keras."""
    want_loss, want = expected(name)[step - 1]
    tolerances = TOLERANCES[CONFIGS[name].dtype]
    np.testing.assert_allclose(loss, want_loss, rtol=tolerances[0])
    assert state.keys() == want.keys()
    for key, value in state.items():
        is_slot = key.rpartition("/")[2] in ("velocity", "mean", "square")
        tolerance = tolerances[0 if is_slot else 1] * max(np.abs(want[key]).max(), 1e-3)
        np.testing.assert_allclose(value, want[key], rtol=0, atol=tolerance, err_msg=f"{key}, step {step}")
        assert value.dtype == want[key].dtype, key


@pytest.mark.parametrize(
    ("name", "layout", "resumed"), [pytest.param(*row, marks=[] if row in FAST else pytest.mark.slow) for row in ROWS]
)
def test_the_whole_state_equals_that_of_keras(tmp_path, name, layout, resumed):
    config = CONFIGS[name]
    step = config.build(*LAYOUTS[layout])
    for number, batch in enumerate(batches(STEPS), 1):
        if resumed and number == SAVED + 1:
            Checkpoints(tmp_path, step.program).save()
            step = config.build(*LAYOUTS[resumed])
            assert Checkpoints(tmp_path, step.program).restore() == SAVED
        result = step(parts=config.parts(batch)) if config.micro_batches > 1 else step(**batch)
        if number in (1, STEPS):
            check(name, number, float(result["loss"]), state_of(step.program))
