"""Values have equal digests only if they compute the same, in every process."""

import functools
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.provenance.content import content_digest

RATE = 0.5


def digest(value):
    return content_digest(value, "task")


def module(text, name="user_module"):
    """Returns a module of a user with some code."""
    own = types.ModuleType(name)
    exec(compile(text, f"/somewhere/{len(text)}/{name}.py", "exec"), own.__dict__)
    return own


class Task:
    def __init__(self, value):
        self.value = value

    @functools.cached_property
    def size(self):
        return len(self.value)


class WithLock(Task):
    def __init__(self, value):
        super().__init__(value)
        self.lock = threading.Lock()


class WithoutLock(WithLock):
    def __getstate__(self):
        return {"value": self.value}


def array(changed=None):
    values = np.arange(5000.0)
    values[2500] = 2500 if changed is None else changed
    return values


def scaled(rate):
    return lambda x: rate * x


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (array(), array(2500.0000001)),
        (Task(array()), Task(array(0))),
        (np.zeros(4, np.float32), np.zeros(4)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([{"a": 1}, None]), np.array([{"a": 2}, None])),
        (0.123456789, 0.1234567891),
        (np.float64(0.123456789), np.float64(0.1234567891)),
        (1, True),
        ("1", 1),
        (["a", "bc"], ["ab", "c"]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (scaled(0.123456789), scaled(0.1234567891)),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.min(), lambda x: x.max()),
        (lambda x, y=1: x, lambda x, y=2: x),
        (lambda x, *, y=1: x, lambda x, *, y=2: x),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (functools.partial(scaled(1), 1), functools.partial(scaled(2), 1)),
        (functools.lru_cache(scaled(1)), functools.lru_cache(scaled(2))),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (mi.layers.Dense(3), mi.layers.Dense(4)),
    ],
)
def test_different_values_have_different_digests(first, second):
    assert digest(first) != digest(second)
    assert digest(Task(first)) != digest(Task(second))
    assert digest([first, first]) != digest([first, second])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (array(), array().astype(">f8")),
        (np.asfortranarray(array().reshape(50, 100)), array().reshape(50, 100)),
        ({"a": 1, "b": [2]}, {"b": (2,), "a": 1}),
        ({0, 8}, {8, 0}),  # their hashes collide, so their order differs
        (np.int64(3), 3),
        (scaled(2), scaled(2)),
        (WithoutLock(1), WithoutLock(1)),
        (float("nan"), float("nan")),
    ],
)
def test_equal_values_have_equal_digests(first, second):
    assert digest(first) == digest(second)


CODE = "RATE = 0.5\ndef helper(x): return x * RATE\nclass Net:\n  SIZE = 3\n  def call(self, x): return helper(x)\n"


@pytest.mark.parametrize(
    ("old", "new"), [("0.5", "0.25"), ("x * RATE", "x / RATE"), ("SIZE = 3", "SIZE = 4"), ("helper(x)\n", "x\n")]
)
def test_the_code_behind_a_task_counts(old, new):
    assert digest(module(CODE).Net()) != digest(module(CODE.replace(old, new)).Net())
    assert digest(module(CODE).Net()) == digest(module(f"# a comment\n\n{CODE}", "__main__").Net())


def test_cycles_end():
    def factorial(n):
        return n * factorial(n - 1) if n else 1

    one, other = [], [1]
    one.append(one)
    other.append(other)
    assert len({digest(value) for value in (factorial, one, other)}) == 3


def test_cached_results_do_not_count():
    used = Task([1, 2])
    before = digest(used)
    assert used.size == 2
    assert digest(used) == before


def test_a_layer_has_the_same_digest_after_it_was_used():
    layer = mi.layers.Dense(3)
    before = digest(layer)
    mi.Program(layer, {"x": "batch:2,channels:4"})(x=np.ones((2, 4), np.float32))
    assert digest(layer) == before


def test_a_file_counts_by_its_content(tmp_path):
    for name, text in (("a", "codes"), ("b", "codes"), ("c", "other")):
        (tmp_path / name).write_text(text)
    first, second, third = (digest(Task(tmp_path / name)) for name in "abc")
    assert first == second != third


def test_a_value_without_content_is_named():
    with pytest.raises(ConfigError) as error:
        digest({"network": [1, WithLock(3)]})
    assert str(error.value).startswith(
        "task.network[1].lock: an object of the class _thread.lock cannot be compared by its content"
    )
    assert "Fix: leave it out, or define __getstate__ in the class that contains it" in str(error.value)


def test_every_process_has_the_same_digest(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import enum, re\nKinds = enum.Enum('Kinds', 'CT MR')\nNAMES = {'liver', 'lesion', 'spleen'}\n"
        "class Task:\n  kinds = frozenset(Kinds)\n  pattern = re.compile('a+')\n"
        "  def check(self, x): return x in {'a', 'b', 'c'} and x in NAMES and Kinds.CT\n"
    )
    code = (
        "import sys; sys.path.append(sys.argv[1]); import mine\n"
        "from mtf_imaging.files.provenance.content import content_digest\n"
        "print(content_digest([mine.Task(), lambda x: mine.NAMES, mine.Task.check], 'task'))"
    )
    found = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(tmp_path)]
        found.add(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(found) == 1
