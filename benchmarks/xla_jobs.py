"""Compares the losses of the shipped jobs with those of the same jobs compiled by XLA: `python -m benchmarks.xla_jobs`.

Each job takes three steps in float64 on two small random images, with few filters, split in two or whole. XLA compiles
it without most optimizations, which takes a few minutes for the largest networks. Float64 keeps the comparison free of
the rounding that optimizers amplify.
"""

import argparse
import dataclasses
import os
import time

SIZES = {"unet3d": (16,) * 3, "classify": (16,) * 2, "deeplab": (33,) * 2, "video": (4, 8, 8)}
_OF_DETECTORS = (64, 64)
_UNET = ("UNet3D.base_filters=2", "UNet3D.convs=1")
_RESNET = ("ResNetBackbone.base_filters=4",)
_RETINANET = (*_RESNET, "RetinaNet.filters=8", "RetinaNet.head_convs=1", "ObjectDetection.max_boxes=3")
_MASK_RCNN = (
    *_RESNET,
    *(f"MaskRCNN.{name}=8" for name in ("filters", "rpn_filters", "box_units", "mask_filters")),
    *(f"InstanceSegmentation.{name}=8" for name in ("rois", "train_per_level", "predict_per_level", "proposals")),
    "MaskRCNN.mask_convs=1",
    "InstanceSegmentation.max_boxes=3",
    "InstanceSegmentation.anchor_samples=16",
)
SMALL = {"unet3d": _UNET, "deeplab": _RESNET, "retinanet": _RETINANET, "mask_rcnn": _MASK_RCNN}
# Stages of one block each, of those jobs whose backbones have more.
_DEEP = ("deeplab_aerial", "deeplab_voc", "mask_rcnn_1024", "retinanet_1280", "retinanet_2560_8way")
_TWO = {"unet3d": "x:rows", "mask_rcnn": ""}  # regions of a split image take minutes to compile
STEPS = 3


def _of(job, table, default):
    return next((value for name, value in table.items() if job.startswith(name)), default)


def small_step(job):
    """Returns a training step of a shipped job with few filters, in float64, and its layout."""
    from mtf_imaging.cli.config import gin_config
    from mtf_imaging.cli.config.setup import JobSetup
    from mtf_imaging.cli.config.training_settings import Job, Training
    from mtf_imaging.engine.layout import Layout
    from mtf_imaging.jobs.steps.building import StepSettings, training_step
    from mtf_imaging.settings.setting import filled

    parameters = [*_of(job, SMALL, ()), *(["ResNetBackbone.blocks=(1, 1, 1, 1)"] if job in _DEEP else [])]
    if job.startswith("unet3d"):
        parameters.append(f"UNet3D.depth={4 if job.endswith('best') else 2}")
    gin_config.bind([gin_config.find_gin_file(job)], parameters, {})
    bound = Job()
    step = training_step(
        filled(StepSettings, bound, Training(), JobSetup()), bound.task, _of(job, SIZES, _OF_DETECTORS)
    )
    rule = _of(job, _TWO, "height:rows")
    parts = min(2, step.micro_batches)
    step = dataclasses.replace(step, batch_size=2, micro_batches=parts, dtype="float64")
    return step, Layout.parse("rows:2" if rule else "", rule)


def losses(step, layout):
    """Returns the losses of the first steps on random images."""
    from mtf_imaging.planner.bench.subject import random_batch

    built = step.build(layout, "stacked")
    (batch,) = step.split(iter([{**random_batch(step.inputs, 0), "cases": ()}]))
    del batch["cases"]
    return [float(built(**batch)["loss"]) for _ in range(STEPS)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", help="names of jobs; default: all but imported_network")
    flags = parser.parse_args(argv)
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    import gin

    from mtf_imaging.cli.config import resources
    from mtf_imaging.cli.runtime.quiet import import_tensorflow
    from mtf_imaging.errors import MtfImagingError

    import_tensorflow()
    shipped = [
        name.removeprefix("gin/").removesuffix(".gin") for name in resources.shipped_files() if name.startswith("gin/")
    ]
    print("| job | processors | losses off by | seconds |\n| --- | --- | --- | --- |")
    for job in flags.jobs or [job for job in shipped if job != "imported_network"]:
        gin.clear_config()
        step, layout = small_step(job)
        expected, began = losses(step, layout), time.perf_counter()
        try:
            found = losses(dataclasses.replace(step, xla=True), layout)
            off = f"{max(abs(a / b - 1) for a, b in zip(found, expected, strict=True)):.0e}"
        except MtfImagingError as error:
            off = str(error)
        print(f"| `{job}` | {layout.processors} | {off} | {time.perf_counter() - began:.0f} |", flush=True)
    gin.clear_config()


if __name__ == "__main__":
    main()
