"""Processes that are killed or stopped at random steps: the others name them, and restarts resume the same run."""

import os
import random
import re
import signal
import time

import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from tests import waiting
from tests.jobs.launched import Launched, assert_same_weights, launch, losses, train_command, wait_for_step

KILLS = 10
TIMEOUT = 12  # seconds
EVERY = 12  # steps between kills
STEPS = (KILLS + 1) * EVERY

pytestmark = [pytest.mark.kill, pytest.mark.slow]


def test_a_run_survives_lost_processes(tmp_path):
    write_phantom(tmp_path / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=tmp_path / "cases", output_dir=tmp_path / "records", **options)
    launch(2, *train_command(tmp_path, tmp_path / "unbroken", STEPS))
    seed = random.SystemRandom().randrange(10**6)
    draw = random.Random(seed)
    signals = [signal.SIGKILL, signal.SIGSTOP] * (KILLS // 2)
    model, kills = tmp_path / "killed", []
    with Launched(2, *train_command(tmp_path, model, STEPS), restarts=KILLS, timeout=TIMEOUT) as launched:
        for number, name in enumerate(signals):
            step, index = number * EVERY + draw.randrange(4, EVERY), draw.randrange(2)
            wait_for_step(launched, model, step)
            time.sleep(draw.random() * 0.1)
            kills.append((step, index, name))
            os.kill(launched.pids()[index], name)
            # The rows of the steps after the last checkpoint disappear only when the run resumes.
            wait_for_restart(launched, number + 1)
        code, output = launched.wait()
    print(f"seed {seed}: {kills}")
    assert code == 0, output
    assert losses(model) == losses(tmp_path / "unbroken")
    assert_same_weights(model, tmp_path / "unbroken", exact=True)
    for _, index, _ in kills:
        assert re.search(rf"lost process {index} \(127.0.0.1:\d+\)", output)
    # Each time, the surviving process names the lost one.
    assert len(re.findall(r"lost process [01] \(127.0.0.1:\d+\)", output)) >= KILLS


def wait_for_restart(launched, number):
    """Waits until launch has started all processes again for the n-th time."""
    text = f"restart {number} of {KILLS}"
    waiting.wait_until(lambda: text in launched.output(), text, [launched.process], report=launched.output)
