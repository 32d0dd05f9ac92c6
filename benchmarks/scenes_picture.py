"""Draws docs/pictures/scenes.jpg: held-out scenes with their references, their predictions and the wrong pixels.

mtf-imaging demo --kind scenes --output_dir demo_scenes
python -m benchmarks.scenes_picture --evaluation_dir demo_scenes/evaluation
"""

import argparse
from pathlib import Path

from PIL import Image

from benchmarks.picture_page import write_page

ROWS = 3
TITLES = ("photo", "reference", "prediction", "wrong pixels")
WIDTH = 800  # pixels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluation_dir", required=True, help="output folder of evaluate")
    parser.add_argument("--output", default="docs/pictures/scenes.jpg", help="JPEG file to write")
    arguments = parser.parse_args()
    paths = sorted(Path(arguments.evaluation_dir, "pictures").glob("*.png"))[:ROWS]
    write_page([Image.open(path).convert("RGB") for path in paths], TITLES, WIDTH, arguments.output)


if __name__ == "__main__":
    main()
