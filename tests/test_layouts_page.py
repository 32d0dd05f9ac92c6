"""The pictures on the pages about layouts match the code."""

import re
from pathlib import Path

from matplotlib.image import imread

from benchmarks import layout_pictures

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
