"""The pictures of docs/concepts/layouts.md are those of their command, and its rules match the arithmetic."""

import re
from pathlib import Path

from matplotlib.image import imread

from benchmarks import layout_pictures
from mtf_imaging.layout.windows import Window, check_split

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "concepts/layouts.md"


def test_pictures_are_what_the_command_draws(tmp_path):
    layout_pictures.main(tmp_path)
    shown = re.findall(
        r"!\[.+?\]\(\.\./pictures/(layouts_\w+\.png)\)", "".join(map(Path.read_text, DOCS.rglob("*.md")))
    )
    assert {*shown} == {file.name for file in tmp_path.iterdir()}
    for name in shown:
        kept = DOCS / "pictures" / name
        assert kept.stat().st_size < 100_000
        assert imread(kept).shape == imread(tmp_path / name).shape


def test_valid_windows_of_stride_1_are_split_by_divisors_of_what_they_lose():
    for kernel in range(1, 8):
        for parts in range(2, 9):
            legal = [n for n in range(kernel, 200) if not check_split(Window(kernel, padding="VALID"), n, parts)]
            assert bool(legal) == ((kernel - 1) % parts == 0)
