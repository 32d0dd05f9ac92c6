"""Draws docs/pictures/objects.jpg: held-out images with their objects and the detections of Mask R-CNN.

mtf-imaging demo --kind objects --output_dir demo_objects
python -m benchmarks.objects_picture --demo_dir demo_objects

It shows the images with the most objects, regardless of the detections.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.picture_page import write_page
from mtf_imaging.kinds.objects.pictures import comparison
from mtf_imaging.kinds.objects.reading.annotations import find_object_images, object_description
from mtf_imaging.kinds.objects.reading.images import Seen, read_object_image
from mtf_imaging.kinds.objects.scoring.detections import Detections

ROWS = 3
TITLES = ("objects", "detections")
WIDTH = 640  # pixels


def read_detections(evaluation_dir, image, description):
    """Returns the detections of an image from an evaluate output folder."""
    results = json.loads(Path(evaluation_dir, "detections.json").read_text())
    own = [one for one in results if one["image_id"] == image.image_id]
    boxes = np.array([one["bbox"] for one in own]).reshape(-1, 4)
    return Detections(
        np.concatenate([boxes[:, 1::-1], boxes[:, 1::-1] + boxes[:, :1:-1]], axis=1),
        np.array([one["score"] for one in own]),
        np.array([description.ids.index(one["category_id"]) for one in own]),
        tuple(one["segmentation"] for one in own),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo_dir", required=True, help="output folder of the demo")
    parser.add_argument("--output", default="docs/pictures/objects.jpg", help="JPEG file to write")
    arguments = parser.parse_args()
    data_dir, evaluation_dir = Path(arguments.demo_dir, "objects"), Path(arguments.demo_dir, "evaluation")
    description = object_description(data_dir, "train")
    threshold = json.loads((evaluation_dir / "metrics.json").read_text())["score_threshold"]
    images = sorted(find_object_images(data_dir, "val"), key=lambda image: -len(image.objects))[:ROWS]
    seen = [
        Seen(read_object_image(image), image, read_detections(evaluation_dir, image, description)) for image in images
    ]
    pictures = [Image.fromarray(comparison(one, description, threshold)) for one in seen]
    write_page(pictures, TITLES, WIDTH, arguments.output)


if __name__ == "__main__":
    main()
