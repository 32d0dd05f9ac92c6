"""The questions for a GPU: valid commands, answers that are written at once, and a time that is never exceeded."""

import json
import time

import pytest

from benchmarks import on_gpu, step_memory
from benchmarks.on_gpu import Question
from benchmarks.partition import __main__ as partition


def test_the_commands_of_all_questions_are_valid(tmp_path):
    asked = on_gpu.questions((16, 32), 3, tmp_path)
    assert len({question.name for question in asked}) == len(asked)
    seen = set()
    for question in asked:
        module, *words = question.words
        seen.add(module)
        if module == "benchmarks.partition":
            flags = partition._parser().parse_args(words)
            assert flags.base_filters == (32 if flags.resolution == (32, 32, 32) else 8)
            assert flags.output_dir == tmp_path / question.name
        elif module == "benchmarks.step_memory":
            names = ["size", "base_filters", "recompute", "mesh_shape", "layout"]
            assert step_memory.parser("", names).parse_args(words).size == 32
    assert seen == {"benchmarks.partition", "benchmarks.step_memory", "benchmarks.on_gpu", "mtf_imaging.cli.main"}


def test_a_command_that_fails_is_reported_with_its_last_words(tmp_path):
    answer = on_gpu.ask(Question("wrong", "Why?", 60, ("benchmarks.partition", "--rounds", "0")), 60, tmp_path)
    assert answer["state"] == "failed (2)"
    assert answer["answer"] == [
        "python -m benchmarks.partition: error: argument --rounds: '0' is not a positive integer"
    ]


@pytest.mark.slow
def test_a_rehearsal_answers_some_questions_and_ends_in_time(tmp_path, capsys):
    began = time.monotonic()
    words = ["--minutes", "0.8", "--sizes", "8", "8", "--rounds", "1", "--questions", "operations,memory_kept,kernels"]
    assert on_gpu.main([*words, "--output_dir", str(tmp_path)]) == 0
    assert time.monotonic() - began < 48
    answers = json.loads((tmp_path / "on_gpu.json").read_text())["answers"]
    assert answers[0]["name"] == "kernels"
    assert answers[0]["state"] in ("done", "cut short")
    table = (tmp_path / "on_gpu.md").read_text()
    assert "| kernels: Does every operation" in table
    assert capsys.readouterr().out.endswith(f"{table}\n")
