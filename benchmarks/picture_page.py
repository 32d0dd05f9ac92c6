"""Stacks pictures on a page with titles, for the documentation."""

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

GAP, TITLE_HEIGHT = 8, 30  # pixels


def write_page(pictures, titles, width, output):
    """Writes a JPEG file.

    Args:
      pictures: images, each with one column per title; they are resized to the page width.
      titles: the titles of the columns.
      width: the page width in pixels.
      output: the file.
    """
    rows = [
        picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
        for picture in pictures
    ]
    page = Image.new("RGB", (width, TITLE_HEIGHT - GAP + sum(GAP + row.height for row in rows)), "white")
    draw, top = ImageDraw.Draw(page), TITLE_HEIGHT
    for number, title in enumerate(titles):
        center = (number + 0.5) * width / len(titles)
        draw.text((center, TITLE_HEIGHT / 2), title, "black", ImageFont.load_default(16), anchor="mm")
    for row in rows:
        page.paste(row, (0, top))
        top += row.height + GAP
    data = io.BytesIO()
    page.save(data, "JPEG", quality=85, optimize=True)
    Path(output).write_bytes(data.getvalue())
    print(f"{output}: {len(data.getvalue()) / 1000:.0f} kB")
