"""The pictures and the rules on the pages about layouts match the code."""

import re
from pathlib import Path

from matplotlib.image import imread

from benchmarks import layout_pictures
from mtf_imaging.layout.windows import Window, check_split

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / name for name in ("concepts/layouts.md", "concepts/halos.md", "guides/from_tpu_estimator.md")]


def test_the_command_draws_all_pictures(tmp_path):
    layout_pictures.main(tmp_path)
    pictures = {
        page.parent / target for page in PAGES for target in re.findall(r"!\[.+?\]\(([\w./]+\.png)\)", page.read_text())
    }
    assert sorted(path.name for path in pictures) == sorted(file.name for file in tmp_path.iterdir())
    for path in pictures:
        assert path.stat().st_size < 100_000
        assert imread(path).shape == imread(tmp_path / path.name).shape


def test_valid_windows_of_stride_1_are_split_by_divisors_of_what_they_lose():
    for kernel in range(1, 8):
        for parts in range(2, 9):
            legal = [n for n in range(kernel, 200) if not check_split(Window(kernel, padding="VALID"), n, parts)]
            assert bool(legal) == ((kernel - 1) % parts == 0)
