"""Draws docs/pictures/objects.jpg: held-out images with their objects and the detections of Mask R-CNN.

mtf-imaging demo --kind objects --output_dir demo_objects
python -m benchmarks.objects_picture --evaluation_dir demo_objects/evaluation
"""

import argparse
import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ROWS = 3
TITLES = ("objects", "detections")
WIDTH, GAP, TITLE_HEIGHT = 560, 8, 30  # pixels


def resized(picture):
    """Returns a picture with the width of the page."""
    return picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluation_dir", required=True, help="output folder of evaluate")
    parser.add_argument("--output", default="docs/pictures/objects.jpg", help="JPEG file to write")
    arguments = parser.parse_args()
    # Each picture of evaluate shows the objects on the left and the detections on the right.
    paths = sorted(Path(arguments.evaluation_dir, "pictures").glob("*.png"))[:ROWS]
    pictures = [resized(Image.open(path).convert("RGB")) for path in paths]
    page = Image.new("RGB", (WIDTH, TITLE_HEIGHT - GAP + sum(GAP + one.height for one in pictures)), "white")
    draw, top = ImageDraw.Draw(page), TITLE_HEIGHT
    for number, title in enumerate(TITLES):
        center = (number + 0.5) * WIDTH / len(TITLES)
        draw.text((center, TITLE_HEIGHT / 2), title, "black", ImageFont.load_default(16), anchor="mm")
    for one in pictures:
        page.paste(one, (0, top))
        top += one.height + GAP
    data = io.BytesIO()
    page.save(data, "JPEG", quality=85, optimize=True)
    Path(arguments.output).write_bytes(data.getvalue())
    print(f"{arguments.output}: {len(data.getvalue()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
