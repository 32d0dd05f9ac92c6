"""While small images are computed, the last ones are written and the next ones are read; large ones are alone."""

import threading
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.files import blocks
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.inference.network import of_function
from mtf_imaging.kinds.batches import Steps
from tests.kinds.volumes import predict_cases
from tests.waiting import PATIENCE


class Image(NamedTuple):
    key: str


class Work:
    """Steps that note what begins and ends.

    Args:
      is_small: whether the image of a number is small.
      bad: the steps that fail, such as "read 1".
      waits: {a step: what must have happened before it ends}.
    """

    def __init__(self, is_small=lambda number: True, bad=(), waits=None):
        self.done, self.threads, self.bad, self._waits = [], {}, bad, waits or {}
        self._changed = threading.Condition()
        self.steps = Steps(
            lambda image: Path(image.key),
            lambda image: self._step("read", int(image.key)),
            lambda images, read: [self._step("infer", *read)],
            is_small=is_small,
        )

    def _step(self, name, number):
        text = f"{name} {number}"
        self.threads[text] = threading.current_thread()
        if text in self.bad:
            raise DataError(f"cannot {text}")
        with self._changed:
            assert self._changed.wait_for(lambda: {*self._waits.get(text, ())} <= {*self.done}, PATIENCE), text
            self.done.append(text)
            self._changed.notify_all()
        return number

    def run(self, count, faults=None):
        images = {number: Image(f"{number}") for number in range(count)}
        return [*self.steps.each(images, lambda number, read, result: self._step("use", result), faults)]


def test_the_neighbors_of_a_small_image_are_written_and_read_while_it_is_computed():
    work = Work(waits={"infer 1": ["use 0", "read 2"], "infer 2": ["use 1", "read 3"]})
    assert work.run(4) == [0, 1, 2, 3]
    assert work.done.index("read 3") > work.done.index("infer 1")  # a single image waits
    assert {work.threads[f"infer {number}"] for number in range(4)} == {threading.current_thread()}


def test_a_large_image_is_alone():
    work = Work(is_small=lambda number: number not in (1, 3))
    assert work.run(5) == [0, 1, 2, 3, 4]
    around = [step for step in work.done if step not in ("infer 0", "infer 2")]  # the others are in order
    expected = "read 0, read 1, use 0, infer 1, use 1, read 2, read 3, use 2, infer 3, use 3, read 4, infer 4, use 4"
    assert around == expected.split(", ")


@pytest.mark.parametrize("is_small", [True, False])
def test_errors_belong_to_their_image(is_small):
    work, faults = Work(lambda number: is_small, bad=("read 0", "infer 2", "use 3", "read 5")), CaseFaults()
    assert work.run(6, faults) == [None, 1, None, None, 4, None]
    with pytest.raises(DataError) as error:
        faults.check(map(str, range(6)))
    assert str(error.value).splitlines()[1:] == [f"  cannot {one}" for one in work.bad]


def test_the_first_error_stops_the_work_once_the_last_image_is_written():
    work = Work(bad=["infer 2"])
    with pytest.raises(DataError, match="cannot infer 2"):
        work.run(9)
    assert "use 1" in work.done
    assert "read 4" not in work.threads


def test_small_volumes_are_predicted_as_large_ones(tmp_path, monkeypatch):
    (tmp_path / "cases").mkdir()
    rng = np.random.default_rng(0)
    for number in range(4):
        hu = rng.integers(-200, 300, (9 + number, 8, 7)).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(hu, np.diag([1.1, -1.2, 1.5, 1])), tmp_path / f"cases/volume-{number}.nii.gz")
    damaged = tmp_path / "cases/volume-2.nii.gz"
    damaged.write_bytes(damaged.read_bytes()[:-60])
    threads = set()

    def probabilities(image):
        threads.update(thread.name for thread in threading.enumerate())
        noise = np.random.default_rng([*image.tobytes()[:400]]).random((*image.shape[:3], 3), np.float32)
        return noise + image * np.arange(3, dtype=np.float32)

    network = of_function(probabilities, 1, 3)

    def predict(name):
        (tmp_path / name).mkdir()
        threads.clear()
        with pytest.raises(DataError, match=r"volume-2\.nii\.gz: ") as error:
            predict_cases(tmp_path / "cases", tmp_path / name, Sampling((8, 6, 5)), network, progress=False)
        files = {path.name: nibabel.load(path).get_fdata().tolist() for path in (tmp_path / name).glob("*.nii.gz")}
        assert len(files) == 3
        return str(error.value), files

    small = predict("small")
    assert any("around" in name for name in threads)
    monkeypatch.setattr(blocks, "IN_MEMORY", 0)
    assert predict("large") == small
    assert not any("around" in name for name in threads)
