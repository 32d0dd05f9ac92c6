"""Prints the tables of docs/evidence/published_steps.md: computed step times next to published ones of TPUs.

    python -m benchmarks.published_steps --model retinanet
    python -m benchmarks.published_steps --model unet3d
    python -m benchmarks.published_steps --model mask_rcnn --on_demand 3.22 --preemptible 0.97

Batches and numbers of steps are those of the reference implementations. All numbers are estimates of the planner, as in
`mtf-imaging explain`; no device is used, and nothing is fitted to the published times.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import mtf_imaging as mi
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.models.detection import InstanceSegmentation, MaskRCNN, ObjectDetection, RetinaNet
from mtf_imaging.models.resnet import ResNetBackbone
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import find_hardware
from mtf_imaging.planner.cost.step_time import step_time
from mtf_imaging.planner.render.recipe_text import format_amount, format_price, format_seconds
from mtf_imaging.training.optimizers import SGD, Adam
from mtf_imaging.training.task import Task

DTYPE = "bfloat16"
STEPS_OF_12_EPOCHS = 22_500  # batches of 64 of the 118,287 training images of COCO 2017


class Setup(NamedTuple):
    """A row of a table: the image size, the batch, the layout, and the published step time, if any."""

    sizes: tuple[int, ...]
    batch: int
    mesh_shape: str = ""
    layout: str = ""
    published: str = ""


def _retinanet() -> Task:
    return ObjectDetection(RetinaNet(ResNetBackbone()))


def _mask_rcnn() -> Task:
    return InstanceSegmentation(MaskRCNN(ResNetBackbone(), train_norms=False))


def _unet3d() -> Task:
    network = UNet3D(base_filters=32, double_before_pool=True, negative_slope=0.0, dropout_rate=0.0)
    return LiverTumorSegmentation(network, dice="adaptive", dice_weight=1.0)


RETINANET = (
    Setup((1280, 1280), 8),
    Setup((1280, 1280), 64, "cores:8", "batch:cores", "910 ms"),
    Setup((2560, 2560), 8, "rows:4,cols:2", "height:rows,width:cols"),
    Setup((2560, 2560), 64, "rows:4,cols:2,cores:8", "height:rows,width:cols,batch:cores", "822 ms"),
)
UNET3D = (
    Setup((128,) * 3, 32, "cores:8", "batch:cores", "3.428 s"),
    Setup((256,) * 3, 32, "rows:8,cores:8", "x:rows,batch:cores", "3.02 s"),
    Setup((256,) * 3, 32, "rows:16,cores:8", "x:rows,batch:cores"),
)
MASK_RCNN = Setup((1024, 1024), 64, "cores:8", "batch:cores")
SCHEDULES = {"12": 1, "24": 2, "48": 4}  # epochs -> multiple of `STEPS_OF_12_EPOCHS`
CORES = ("tpu_v2", "tpu_v3")


def explain(task: Task, setup: Setup, hardware: str, num_steps: int = STEPS_OF_12_EPOCHS) -> Explained:
    """Explains a training step that keeps all activations."""
    return mi.jobs.explain(
        task=task,
        resolution=setup.sizes,
        layout=mi.Layout.parse(setup.mesh_shape, setup.layout),
        hardware=find_hardware(hardware),
        optimizer=Adam(1e-4) if isinstance(task, LiverTumorSegmentation) else SGD(0.08),
        batch_size=setup.batch,
        dtype=DTYPE,
        num_steps=num_steps,
    )


def row(setup: Setup, explained: Explained) -> list[str]:
    """Returns the cells of a step; pairs are for kept and recomputed activations."""
    plans, hardware = (explained.kept, explained.recomputed), explained.hardware
    memory = (format_bytes(plan.memory) + ("" if explained.fits(plan) else " (too much)") for plan in plans)
    steps = (format_seconds(step_time(plan, hardware, DTYPE).total) for plan in plans)
    return [
        hardware.name,
        " x ".join(map(str, setup.sizes)),
        str(setup.batch),
        f"`{setup.mesh_shape}`" if setup.mesh_shape else "one processor",
        f"`{setup.layout}`" if setup.layout else "",
        str(explained.recipe_cost.devices),
        " / ".join(memory),
        " / ".join(steps),
        f"{explained.time.exchange_share:.1%}",
        setup.published,
    ]


def steps_of(build: Callable[[], Task], setups: Sequence[Setup], cores: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the head and the rows of a table of steps."""
    yield "device", "image", "batch", "mesh", "layout", "devices", "memory per device", "step", "exchange", "published"
    for hardware in cores:
        yield from (row(setup, explain(build(), setup, hardware)) for setup in setups)


def schedules(prices: Sequence[float | None]) -> Iterator[Sequence[str]]:
    """Yields the head and the rows of the training schedules of Mask R-CNN.

    Args:
      prices: of a device for one hour, on demand and preemptible; None leaves the column empty.
    """
    yield "device", "epochs", "steps", "step", "hours", "on demand", "preemptible", "box AP", "mask AP"
    for hardware in CORES:
        for epochs, multiple in SCHEDULES.items():
            steps = STEPS_OF_12_EPOCHS * multiple
            cost = explain(_mask_rcnn(), MASK_RCNN, hardware, steps)
            hours, devices = cost.recipe_cost.hours, cost.recipe_cost.devices
            costs = ("" if price is None else format_price(price * hours * devices) for price in prices)
            seconds = format_seconds(cost.time.total)
            yield cost.hardware.name, epochs, f"{steps:,}", seconds, format_amount(hours), *costs, "", ""


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument(
        "--model", choices=("retinanet", "unet3d", "mask_rcnn"), required=True, help="the table to print"
    )
    flags.add_argument("--on_demand", type=float, help="price of one device for one hour, for mask_rcnn")
    flags.add_argument("--preemptible", type=float, help="the same for a device that may be taken away")
    arguments = flags.parse_args()
    table = {
        "retinanet": lambda: steps_of(_retinanet, RETINANET, CORES[1:]),
        "unet3d": lambda: steps_of(_unet3d, UNET3D, CORES),
        "mask_rcnn": lambda: schedules((arguments.on_demand, arguments.preemptible)),
    }[arguments.model]()
    for number, cells in enumerate(table):
        print(f"| {' | '.join(cells)} |", flush=True)
        if number == 0:
            print(f"|{' --- |' * len(cells)}")


if __name__ == "__main__":
    main()
