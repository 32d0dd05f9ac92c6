"""The time and cost of a whole training, computed from the time of one step."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The length of a training and the price of its devices.

    Attributes:
      num_steps: the number of steps; None if unknown.
      price_per_hour: the price of one device for one hour, in any currency; None if unknown.
    """

    num_steps: int | None = None
    price_per_hour: float | None = None


UNKNOWN_RECIPE = Recipe()


@dataclasses.dataclass(frozen=True)
class RecipeCost:
    """The time and cost of a training that consists of steps only.

    Start-up, waiting for data, evaluations and checkpoints are not included.

    Attributes:
      steps_per_second: steps per second.
      images_per_second: images per second, summed over all devices.
      devices: the number of billed devices.
      num_steps: the number of steps; None if unknown.
      hours: the duration of all steps in hours; None without `num_steps`.
      device_hours: `hours` multiplied by `devices`.
      price_per_hour: the price of one device for one hour, in any currency; None if unknown.
      cost: the price of all device-hours; None without a price or without `num_steps`.
      cost_per_1000_steps: the price of the device-hours of 1,000 steps; None without a price.
    """

    steps_per_second: float
    images_per_second: float
    devices: int
    num_steps: int | None
    hours: float | None
    device_hours: float | None
    price_per_hour: float | None
    cost: float | None
    cost_per_1000_steps: float | None


def recipe_cost(recipe: Recipe, seconds: float, batch_size: int, devices: int) -> RecipeCost:
    """Returns the time and cost of a training run.

    Args:
      recipe: the training length and the device price.
      seconds: the time of one step.
      batch_size: the number of images in a step, summed over all devices.
      devices: the number of billed devices.
    """
    steps, price = recipe.num_steps, recipe.price_per_hour
    step_hours = seconds / 3600
    hours = None if steps is None else steps * step_hours
    device_hours = None if hours is None else hours * devices
    return RecipeCost(
        steps_per_second=1 / seconds,
        images_per_second=batch_size / seconds,
        devices=devices,
        num_steps=steps,
        hours=hours,
        device_hours=device_hours,
        price_per_hour=price,
        cost=None if device_hours is None or price is None else device_hours * price,
        cost_per_1000_steps=None if price is None else 1000 * step_hours * devices * price,
    )
