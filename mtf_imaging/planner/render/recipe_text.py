"""The time and cost of a training as text: lines for one layout, a table for several setups."""

from collections.abc import Iterator, Mapping

from mtf_imaging.plain_text import counted, text_table
from mtf_imaging.planner.cost.recipe import RecipeCost

_WITHOUT = "without start-up, waiting for data, evaluation and checkpoints"
_COLUMNS = {
    "steps_per_second": "steps/s",
    "images_per_second": "images/s",
    "devices": "devices",
    "hours": "hours",
    "device_hours": "device-hours",
    "cost": "cost",
    "cost_per_1000_steps": "cost per 1,000 steps",
}
_MEASURED = 2  # columns; the others follow from the measured step


def recipe_lines(cost: RecipeCost, title: str = "training") -> Iterator[str]:
    """Yields the lines for a training with a modeled step time.

    Args:
      cost: the time and cost of the training run.
      title: the beginning of the first line.
    """
    yield f"{title} (computed from the time per step, not measured)"
    steps, images = map(format_amount, (cost.steps_per_second, cost.images_per_second))
    yield f"  {steps} steps per second, {images} images per second"
    if cost.hours is not None and cost.device_hours is not None:
        hours = f"{format_amount(cost.hours)} h on {counted(cost.devices, 'device')}"
        yield f"  {counted(cost.num_steps, 'step')}: {hours}, {format_amount(cost.device_hours)} device-hours"
    if cost.price_per_hour is not None and cost.cost_per_1000_steps is not None:
        total = "" if cost.cost is None else f"{format_price(cost.cost)} for {counted(cost.num_steps, 'step')}, "
        thousand = format_price(cost.cost_per_1000_steps)
        yield f"  cost at {format_price(cost.price_per_hour)} per device-hour: {total}{thousand} per 1,000 steps"
    yield f"  {_WITHOUT}"


def recipe_table(costs: Mapping[str, RecipeCost]) -> Iterator[str]:
    """Yields a table of training runs with measured step times, one line per setup.

    Args:
      costs: the time and cost by setup name; all have the same number of steps and the same price.
    """
    first = next(iter(costs.values()))
    fields = [name for name in _COLUMNS if getattr(first, name) is not None]
    if first.num_steps is None and first.price_per_hour is None:
        fields = fields[:_MEASURED]
    rows = [["setup", *(_COLUMNS[name] for name in fields)]]
    for setup, cost in costs.items():
        rows.append([setup, *(_FORMATS.get(name, format_amount)(getattr(cost, name)) for name in fields)])
    titles = {1: "measured"} | ({1 + _MEASURED: "from the measured step"} if len(fields) > _MEASURED else {})
    yield from text_table(rows, titles=titles)
    if first.num_steps is not None:
        yield f"hours: {counted(first.num_steps, 'step')} of the measured time, {_WITHOUT}"
    if first.price_per_hour is not None:
        yield f"cost: {format_price(first.price_per_hour)} per device-hour"


def format_amount(number: float) -> str:
    """Formats a number with three significant digits, or with all digits before the point.

    >>> format_amount(0.64444), format_amount(12345.6), format_amount(8)
    ('0.644', '12,346', '8')
    """
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"


def format_price(price: float) -> str:
    """Formats a price with two decimals, or with three significant digits if it is small.

    >>> format_price(1234.5), format_price(0.01234)
    ('1,234.50', '0.0123')
    """
    return f"{price:,.2f}" if price >= 1 else f"{price:.3g}"


def format_seconds(seconds: float) -> str:
    """Formats a duration.

    >>> format_seconds(0.0419)
    '41.9 ms'
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{round(seconds * 1e3, 4):.3g} ms"


_FORMATS = {"cost": format_price, "cost_per_1000_steps": format_price}
