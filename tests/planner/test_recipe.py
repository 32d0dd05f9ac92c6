"""The time and the cost of a training, from the time of a step."""

import dataclasses

import pytest

from mtf_imaging.planner.cost.recipe import Recipe, recipe_cost
from mtf_imaging.planner.render.recipe_text import format_amount, recipe_lines, recipe_table


def test_hours_and_costs_follow_from_the_step():
    """9,000 steps of 0.4 s are an hour; four devices at 2.5 cost 10."""
    cost = recipe_cost(Recipe(9000, 2.5), 0.4, batch_size=8, devices=4)
    assert cost.steps_per_second == pytest.approx(2.5)
    assert cost.images_per_second == pytest.approx(20)
    assert (cost.hours, cost.device_hours, cost.cost) == pytest.approx((1, 4, 10))
    assert cost.cost_per_1000_steps == pytest.approx(10 / 9)


@pytest.mark.parametrize(
    ("recipe", "unknown"),
    [
        (Recipe(), {"num_steps", "hours", "device_hours", "price_per_hour", "cost", "cost_per_1000_steps"}),
        (Recipe(num_steps=10), {"price_per_hour", "cost", "cost_per_1000_steps"}),
        (Recipe(price_per_hour=1.0), {"num_steps", "hours", "device_hours", "cost"}),
    ],
)
def test_nothing_is_computed_from_what_is_not_known(recipe, unknown):
    cost = dataclasses.asdict(recipe_cost(recipe, 0.5, batch_size=2, devices=3))
    assert {name for name, value in cost.items() if value is None} == unknown


def test_the_lines_of_a_layout():
    lines = [*recipe_lines(recipe_cost(Recipe(9000, 2.5), 0.4, batch_size=8, devices=4))]
    assert lines == [
        "training (computed from the time per step, not measured)",
        "  2.5 steps per second, 20 images per second",
        "  9,000 steps: 1 h on 4 devices, 4 device-hours",
        "  cost at 2.50 per device-hour: 10.00 for 9,000 steps, 1.11 per 1,000 steps",
        "  without start-up, waiting for data, evaluation and checkpoints",
    ]
    without_steps = [*recipe_lines(recipe_cost(Recipe(None, 2.5), 0.4, batch_size=8, devices=4))]
    assert without_steps == [*lines[:2], "  cost at 2.50 per device-hour: 1.11 per 1,000 steps", lines[-1]]
    without_price = [*recipe_lines(recipe_cost(Recipe(9000), 0.4, batch_size=8, devices=1))]
    assert without_price == [*lines[:2], "  9,000 steps: 1 h on 1 device, 1 device-hours", lines[-1]]


def test_the_table_of_setups():
    recipe = Recipe(9000, 2.5)
    costs = {"/": recipe_cost(recipe, 0.4, 8, 1), "rows:2/x:rows": recipe_cost(recipe, 0.25, 8, 2)}
    assert [*recipe_table(costs)] == [
        "               measured           from the measured step",
        "setup          steps/s  images/s  devices  hours  device-hours  cost  cost per 1,000 steps",
        "/                  2.5        20        1      1             1  2.50                 0.278",
        "rows:2/x:rows        4        32        2  0.625          1.25  3.12                 0.347",
        "hours: 9,000 steps of the measured time, without start-up, waiting for data, evaluation and checkpoints",
        "cost: 2.50 per device-hour",
    ]
    assert [*recipe_table({"/": recipe_cost(Recipe(), 0.4, 8, 1)})] == [
        "       measured",
        "setup  steps/s  images/s",
        "/          2.5        20",
    ]


@pytest.mark.parametrize(
    ("number", "shown"), [(999.4, "999"), (999.6, "1,000"), (0.5, "0.5"), (1234567.0, "1,234,567"), (12.34, "12.3")]
)
def test_amounts(number, shown):
    assert format_amount(number) == shown
