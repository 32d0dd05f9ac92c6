"""Commands that are killed at random moments and restarted write the same bytes as undisturbed commands."""

import pytest

from benchmarks.reliability import good, kills
from benchmarks.reliability.writers import WRITERS, Undisturbed

KILLS = 10

pytestmark = [pytest.mark.kill, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small cases, records, and a network after two training steps."""
    return good.prepare(tmp_path_factory.mktemp("reliability") / "good")


@pytest.mark.parametrize(("seed", "command"), [(1, "convert"), (2, "evaluate")])
def test_a_killed_command_loses_nothing(folder, tmp_path, seed, command):
    whole = Undisturbed(WRITERS[command], folder, tmp_path, limit=240.0)
    halfway = 0
    for number, moment in enumerate(kills.moments(seed, KILLS)):
        row = kills.kill_once(whole, moment, tmp_path / f"kill--{number:02}")
        assert row["reason"] == "", f"seed {seed}, kill {number}, {moment}"
        halfway += 0 < row["written"] < row["files"]
    assert halfway > 0, "no kill happened while the output was incomplete, so the test shows nothing"
