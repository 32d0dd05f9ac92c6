"""The flags of benchmarks: wrong values are reported with the flag and a correction."""

import sys

import pytest

from benchmarks import loss_in_turns, objects_study, resolution_study
from benchmarks.flags import whole_numbers


def test_a_list_of_whole_numbers():
    assert whole_numbers("3") == [3]
    assert whole_numbers("96,0, 32") == [96, 0, 32]


@pytest.mark.parametrize(
    ("benchmark", "words", "message"),
    [
        (
            resolution_study,
            "--output_dir out --resolutions 32,abc",
            "--resolutions: 'abc' is not a whole number. Fix: ",
        ),
        (objects_study, "--output_dir out --sizes 640,", "--sizes: '' is not a whole number. Fix: "),
        (loss_in_turns, "--size 500", "--size: 500 is not a multiple of 32. Fix: "),
        (loss_in_turns, "--size 0", "--size: 0 is not a multiple of 32. Fix: "),
    ],
)
def test_a_wrong_value_ends_the_command_with_its_fix(benchmark, words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark", *words.split()])
    with pytest.raises(SystemExit, match="2"):
        benchmark.main()
    assert message in capsys.readouterr().err.splitlines()[-1]
