"""Prints the table of docs/evidence/detection.md: the computed cost of training RetinaNet on large images.

    python -m benchmarks.retinanet_cost

The network is RetinaNet with ResNet-50 in bfloat16, with the batch and the number of steps in the reference
implementation. All numbers are estimates of the planner, as in `mtf-imaging explain`; no device is used.
"""

import argparse
from typing import NamedTuple

import mtf_imaging as mi
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.models.detection import ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import ResNetBackbone
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import GIB, Hardware, find_hardware
from mtf_imaging.planner.cost.step_time import step_time
from mtf_imaging.planner.render.recipe_text import format_amount, format_price, format_seconds
from mtf_imaging.training.optimizers import SGD

# Half a chip as Jouppi et al. 2020 ("A domain-specific supercomputer for training deep neural networks") describe it:
# 123 TFLOP/s in bfloat16, 32 GiB of memory with 900 GB/s, and 4 links of 656 Gbit/s. By default, convolutions round
# float32 to bfloat16. All other fields have the defaults of GPUs: none is fitted to the published step times.
TPU_V3_CORE = Hardware("TPU v3 core", 16 * GIB, 61.5e12, 61.5e12, link=164e9, bandwidth=450e9)
NUM_STEPS = 22_500
DTYPE = "bfloat16"


class Setup(NamedTuple):
    """A row of the table: the image size, the batch, the layout, and the published step time, if any."""

    size: int
    batch: int
    mesh_shape: str = ""
    layout: str = ""
    published: str = ""


SETUPS = (
    Setup(1280, 8),
    Setup(1280, 64, "cores:8", "batch:cores", "910 ms"),
    Setup(2560, 8, "rows:4,cols:2", "height:rows,width:cols"),
    Setup(2560, 64, "rows:4,cols:2,cores:8", "height:rows,width:cols,batch:cores", "822 ms"),
)
_HEAD = ("image", "batch", "mesh", "layout", "devices", "memory per device", "step", "exchange", "images/s", "hours")


def explain(setup: Setup, hardware: Hardware, price: float | None = None) -> Explained:
    """Explains a training step that keeps all activations."""
    return mi.jobs.explain(
        task=ObjectDetection(RetinaNet(ResNetBackbone())),
        resolution=(setup.size, setup.size),
        layout=mi.Layout.parse(setup.mesh_shape, setup.layout),
        hardware=hardware,
        optimizer=SGD(0.08),
        batch_size=setup.batch,
        dtype=DTYPE,
        num_steps=NUM_STEPS,
        price_per_hour=price,
    )


def row(setup: Setup, explained: Explained, published: bool) -> list[str]:
    """Returns the cells of a row; pairs are for kept and recomputed activations."""
    plans, hardware = (explained.kept, explained.recomputed), explained.hardware
    memory = (format_bytes(plan.memory) + ("" if explained.fits(plan) else " (too much)") for plan in plans)
    steps = (format_seconds(step_time(plan, hardware, DTYPE).total) for plan in plans)
    cost = explained.recipe_cost
    return [
        f"{setup.size} x {setup.size}",
        str(setup.batch),
        f"`{setup.mesh_shape}`" if setup.mesh_shape else "one processor",
        f"`{setup.layout}`" if setup.layout else "",
        str(cost.devices),
        " / ".join(memory),
        " / ".join(steps),
        f"{explained.time.exchange_share:.1%}",
        format_amount(cost.images_per_second),
        format_amount(cost.hours),
        *([] if cost.cost is None else [format_price(cost.cost)]),
        *([setup.published] if published else []),
    ]


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--hardware", help="kind of device, as in explain; default: one core of a TPU v3")
    flags.add_argument("--price_per_hour", type=float, help="price of one device for one hour; adds the cost")
    arguments = flags.parse_args()
    hardware = find_hardware(arguments.hardware) if arguments.hardware else TPU_V3_CORE
    published = hardware is TPU_V3_CORE
    cost = [] if arguments.price_per_hour is None else ["cost"]
    head = [*_HEAD, *cost, *(["published step"] if published else [])]
    print(f"| {' | '.join(head)} |")
    print(f"|{' --- |' * len(head)}")
    for setup in SETUPS:
        cells = row(setup, explain(setup, hardware, arguments.price_per_hour), published)
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
