"""Trains one detector at several image sizes on the same images, and compares the AP of small held-out objects.

    python -m benchmarks.objects_study --output_dir objects    # 4 hours of CPU time

The images have 1280 x 1280 pixels and many small objects: the textured shapes of `phantom --kind objects`, 8 to 80
pixels wide, on an empty scene. Three quarters are for training; the others are held out, and no setting was chosen with
them. The network and the number of steps are the same for all sizes. A mesh gives each processor 640 x 640 pixels, so
1280 x 1280 is split over 2 x 2. Average precision (AP) is that of COCO; small objects have an area below 32 x 32 pixels
of the stored image.

A step has one image, whose statistics the batch norms use, while evaluation uses moving averages. Therefore, each run
ends with steps in which the averages are constant and in use. It is evaluated before and after these steps.

SIZE_seed_SEED/before and SIZE_seed_SEED/after have everything that `train` and `evaluate` write, before and after these
steps. The scores go to objects.csv.
The same command continues after an interruption and keeps finished runs, so it can also add sizes and seeds.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.commands import run_command
from benchmarks.flags import whole_numbers
from benchmarks.tables import markdown, mean_and_range, read_rows, write_rows
from mtf_imaging.data.pixels import painting
from mtf_imaging.data.pixels.synthetic import write_jpeg
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.kinds.objects.scenes import CATEGORIES, make_object_scene

JOB = str(Path(__file__).with_suffix(".gin"))
TABLE = "objects.csv"
MEASURES = {"ap_small": "AP of small objects", "ap_medium": "AP of medium objects", "ap50": "AP50", "ap": "AP"}
BEFORE = "ap_small_before"
COLUMNS = {BEFORE: "AP of small objects, before the last steps"} | MEASURES
SIDE, TILE = 1280, 160  # pixels
_SCENES = 16  # the tiles of an image that have objects, at most 6 each; COCO scores 100 detections per image
_SLICE = 640  # pixels of an image on a processor, along each axis
_HELD_OUT = 1000  # added to the numbers of held-out images: settings were chosen with images of lower numbers
_LAST_STEPS = ["num_steps = 120", "PolyDecay.initial = 0.001"]  # the steps with constant averages

Run = Mapping[str, float]


def make_image(number: int) -> tuple[np.ndarray, list[dict]]:
    """Returns an image, uint8 `[height, width, 3]`, and its COCO annotations.

    Objects of small scenes are pasted into randomly chosen tiles of a large empty scene.
    """
    rng = np.random.default_rng(number)
    pixels = painting.photographed(rng, painting.background(rng, SIDE, SIDE))
    across, annotations = SIDE // TILE, []
    for place in rng.permutation(across**2)[:_SCENES]:
        scene = make_object_scene(number, int(place), size=(TILE, TILE + 1))
        top, left = TILE * (place // across), TILE * (place % across)
        tile = pixels[top : top + TILE, left : left + TILE]
        for shape in scene.shapes:
            tile[shape.mask] = scene.pixels[shape.mask]
            rows, columns = (np.flatnonzero(shape.mask.any(axis)) for axis in (1, 0))
            corner = [int(left + columns[0]), int(top + rows[0])]
            annotations.append(
                {
                    "image_id": number,
                    "category_id": CATEGORIES[shape.category][0],
                    "bbox": [*corner, int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1],
                    "area": int(shape.mask.sum()),
                    "iscrowd": 0,
                }
            )
    return pixels, annotations


def write_images(folder: Path, num_images: int) -> None:
    """Writes the images in COCO's layout, unless they exist."""
    for split, held_out in (("train", False), ("val", True)):
        images, annotations = [], []
        (folder / split).mkdir(parents=True, exist_ok=True)
        path = folder / f"annotations/instances_{split}.json"
        if path.exists():
            continue
        for number in (n + _HELD_OUT * held_out for n in range(num_images) if (n % 4 == 3) == held_out):
            pixels, own = make_image(number)
            write_jpeg(folder / split / f"{number}.jpg", pixels)
            images.append({"id": number, "file_name": f"{number}.jpg", "height": SIDE, "width": SIDE})
            annotations += own
        numbered = [{"id": at + 1, **annotation} for at, annotation in enumerate(annotations)]
        categories = [{"id": category, "name": name} for category, name in CATEGORIES]
        path.parent.mkdir(exist_ok=True)
        with atomic_path(path) as temporary:
            contents = {"images": images, "annotations": numbered, "categories": categories}
            temporary.write_text(json.dumps(contents))


def read(path: Path) -> list[Run]:
    """Returns the runs of an `objects.csv`."""
    return [{name: json.loads(value) for name, value in row.items()} for row in read_rows(path)]


def text(runs: Sequence[Run]) -> str:
    """Returns a Markdown table with one row for each size: the mean and range over seeds."""
    rows = []
    for size in sorted({run["size"] for run in runs}):
        own = [run for run in runs if run["size"] == size]
        scores = (mean_and_range([run[measure] for run in own]) for measure in COLUMNS)
        rows.append([f"{size} x {size}", str(len(own)), *scores])
    return markdown(["image", "seeds", *COLUMNS.values()], rows)


def _scores(folder: Path, images: Path, **job) -> dict[str, float]:
    """Returns the scores of held-out boxes. Trains and evaluates first, unless the folder has the scores.

    Args:
      folder: the folder of the model and its evaluation.
      images: the folder of the images.
      **job: other flags of `train`.
    """
    model, metrics = folder / "model", folder / "evaluation/metrics.json"
    if not metrics.exists():
        run_command("train", data_dir=images, model_dir=model, **job)
        run_command("evaluate", model_dir=model, input_dir=images, output_dir=metrics.parent)
    return json.loads(metrics.read_text("utf-8"))["boxes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--num_images", type=int, default=80, help="number of images (default: 80)")
    parser.add_argument("--sizes", type=whole_numbers, default="640,1280", help="height and width (%(default)s)")
    parser.add_argument("--seeds", type=whole_numbers, default="1,2,3", help="of the training runs (%(default)s)")
    parser.add_argument("--gin_param", action="append", default=[], help="as in train; may be repeated")
    flags = parser.parse_args()
    out = flags.output_dir.resolve()
    images, runs = out / "images", []
    write_images(images, flags.num_images)
    for size in sorted(flags.sizes):
        across = max(1, size // _SLICE)
        job = {
            "gin_file": [JOB],
            "mesh_shape": f"rows:{across},cols:{across}",
            "layout": "height:rows,width:cols",
        }
        params = [f"Objects.size = ({size}, {size})", *flags.gin_param]
        for seed in flags.seeds:
            before, after = (out / f"{size}_seed_{seed}" / part for part in ("before", "after"))
            first = _scores(before, images, seed=seed, gin_param=params, **job)
            last = job | {"initial_weights": before / "model", "frozen": "*moving_*"}
            scores = _scores(after, images, seed=seed, gin_param=[*params, *_LAST_STEPS], **last)
            run = {measure: scores[measure] for measure in MEASURES}
            runs.append({"size": size, "seed": seed, BEFORE: first["ap_small"]} | run)
            write_rows(out / TABLE, list(runs[0]), runs)
    print(f"\n{text(runs)}")


if __name__ == "__main__":
    main()
