"""Trainings that learn nothing are reported once, and healthy ones are not."""

import logging

import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.jobs.data.class_frequencies import labeled_masks
from mtf_imaging.training.observers.early_warnings import EarlyWarnings
from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.optimizers import PolyDecay, WarmUp

STEPS = 400
RATE = PolyDecay(0.003, steps=STEPS)


def healthy(step):
    """A noisy run that finds the liver at once and the lesions after 100 steps, as on real CTs."""
    rng = np.random.default_rng(step)
    liver, lesion = 1 - np.exp(-(step + 10) / 60), 0.8 * max(0.0, 1 - np.exp(-(step - 100) / 80))
    noise = rng.normal(1, 0.2)
    return {"loss": noise * (1.2 - liver / 2 - lesion / 2), "liver": liver * noise, "lesion": lesion * noise}


def without_lesions(step):
    return healthy(step) | {"lesion": 0.0004}


def late_lesions(step):
    return healthy(step) | {"lesion": 0.02 if step < 300 else 0.8}


def flat(step):
    return healthy(step) | {"loss": float(np.random.default_rng(step).normal(1, 0.2))}


def messages(caplog, folder, values, steps=range(STEPS), rate=RATE, masks=("liver", "lesion"), log=True):
    """Runs the observer with the log of losses, and returns its warnings."""
    caplog.clear()
    observers = [LossLog(folder / "losses.csv")] * log
    observers += [EarlyWarnings(folder / "losses.csv", masks, STEPS, lambda step: float(rate(step)))]
    with caplog.at_level(logging.WARNING):
        for observer in observers:
            observer.begin(steps[0])
        for step in steps:
            for observer in observers:
                observer.after(step, values(step), ["1"], 0.1, 0.0)
    for observer in observers:
        observer.close()
    return [record.getMessage() for record in caplog.records]


def test_a_healthy_run_has_no_warning(caplog, tmp_path):
    assert messages(caplog, tmp_path, healthy) == []


def test_a_mask_that_is_not_predicted(caplog, tmp_path):
    (text,) = messages(caplog, tmp_path, without_lesions)
    assert text.startswith(f"{tmp_path}: the soft Dice of lesion is still 0.000 after 200 steps, although the training")
    assert "Fix: start from the frequencies of the labels (class_frequencies)" in text
    assert messages(caplog, tmp_path, without_lesions, masks=("liver",)) == []


def test_a_loss_that_does_not_fall(caplog, tmp_path):
    (text,) = messages(caplog, tmp_path, flat)
    assert "the loss has not fallen in 100 steps: its mean was 0.9" in text
    assert "Fix: try a learning rate 10 times lower or higher" in text


def test_a_learning_rate_that_decays_too_early(caplog, tmp_path):
    (text,) = messages(caplog, tmp_path, late_lesions)
    half = next(step for step in range(STEPS) if RATE(step) < 0.5 * 0.003)
    assert f"the learning rate of step {half} is 0.0015, less than half of its maximum of 0.003, but the soft" in text
    assert "Dice of lesion has not reached 0.1 yet. Fix: let the rate decay later" in text


def test_a_single_good_case_does_not_find_a_mask(caplog, tmp_path):
    (text,) = messages(caplog, tmp_path, lambda step: healthy(step) | {"lesion": 0.5 * (step % 40 == 0)})
    assert "the soft Dice of lesion has not reached 0.1 yet" in text


def test_a_warm_up_is_not_a_decay(caplog, tmp_path):
    rate = WarmUp(0.003, steps=350)
    assert messages(caplog, tmp_path, late_lesions, rate=rate) == []


@pytest.mark.parametrize("stop", [60, 150, 250])
@pytest.mark.parametrize("values", [without_lesions, late_lesions, flat, healthy])
def test_a_run_that_resumes_warns_as_an_unbroken_one(caplog, tmp_path, values, stop):
    want = messages(caplog, tmp_path, values)
    parts = [messages(caplog, tmp_path / "parts", values, steps) for steps in (range(stop), range(stop, STEPS))]
    assert [text.replace(f"{tmp_path}/parts", str(tmp_path)) for part in parts for text in part] == want


def test_masks_that_are_no_measures_of_the_task_are_left_out(caplog, tmp_path):
    def without_masks(step):
        return {"loss": healthy(step)["loss"], "accuracy": 0.5}

    assert messages(caplog, tmp_path, without_masks) == []


def test_a_resumed_run_computes_few_learning_rates(caplog, tmp_path):
    rates, steps = [], 350

    def rate(step):
        rates.append(step)
        return 0.003

    messages(caplog, tmp_path, healthy, range(steps))
    messages(caplog, tmp_path, healthy, range(steps, steps + 1), rate=rate)
    assert rates == []  # all masks were found before
    messages(caplog, tmp_path / "lost", without_lesions, range(steps))
    messages(caplog, tmp_path / "lost", without_lesions, range(steps, steps + 1), rate=rate)
    assert len(rates) == 201 < steps


def test_short_runs_have_no_warning(caplog, tmp_path):
    assert messages(caplog, tmp_path, flat, range(49)) == []


def test_masks_without_a_label_are_left_out():
    assert labeled_masks(LITS, None) == ["liver", "lesion"]
    assert labeled_masks(LITS, (0.9, 0.1, 0.0)) == ["liver"]
    assert labeled_masks(LITS, (0.9, 0.0, 0.1)) == ["liver", "lesion"]  # lesions are part of the liver
    regions = Description(("MR",), {"a": 1, "b": 2}, {"whole": (1, 2), "core": (2,)}, region_order=(1, 2))
    assert labeled_masks(regions, (0.2, 0.0)) == ["whole", "core"]
    assert labeled_masks(None, None) == []
