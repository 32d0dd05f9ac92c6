"""The blocks of docs/concepts/layouts.md print what the page shows, and its rules match the arithmetic."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from benchmarks import layout_pictures
from mtf_imaging.layout.windows import Window, check_split

PAGE = Path(__file__).parents[1] / "docs/concepts/layouts.md"
PRINTED = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("code", "text"), PRINTED, ids=range(len(PRINTED)))
def test_blocks_print_what_stands_below_them(code, text, capsys):
    exec(compile(code, PAGE.name, "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out == text


def test_every_block_says_what_it_prints():
    assert len(PRINTED) == PAGE.read_text().count("```python\n") == 4


def test_pictures_are_what_the_command_draws(tmp_path):
    layout_pictures.main(tmp_path)
    pictures = re.findall(r"!\[.+?\]\((\w+\.png)\)", PAGE.read_text())
    assert sorted(pictures) == sorted(file.name for file in tmp_path.iterdir())
    for name in pictures:
        assert (PAGE.parent / name).stat().st_size < 100_000
        assert imread(PAGE.parent / name).shape == imread(tmp_path / name).shape


def test_valid_windows_of_stride_1_are_split_by_divisors_of_what_they_lose():
    for kernel in range(1, 8):
        for parts in range(2, 9):
            legal = [n for n in range(kernel, 200) if not check_split(Window(kernel, padding="VALID"), n, parts)]
            assert bool(legal) == ((kernel - 1) % parts == 0)
