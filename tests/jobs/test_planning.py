"""Plans that fit the memory of a device, and whole plans of phantoms."""

import math

import pytest

import mtf_imaging as mi
from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.records.convert import max_voxels
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.choices.fitting import fit
from mtf_imaging.jobs.planning import plan_fingerprint
from mtf_imaging.jobs.searching import search_step
from mtf_imaging.layout import ONE_PROCESSOR
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, build_task
from mtf_imaging.planner.cost.hardware import HARDWARE, Hardware
from mtf_imaging.planner.search.search import Searched
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import TrainingStep
from tests.jobs.fingerprints import ORGANS, fingerprint


class Planned:
    """A search in which memory is proportional to voxels, filters and the batch, and halves with recomputation.

    A step takes `seconds` for each volume.
    """

    def __init__(self, available, seconds):
        self.available, self.seconds, self.tried = available, seconds, []

    def __call__(self, variant):
        self.tried.append(variant)
        memory = math.prod(variant.grid) * variant.filters * variant.batch_size
        found = []
        for recompute in (False, True):
            need = memory // (1 + recompute)
            fits = need <= self.available
            time = _Time(self.seconds * variant.batch_size)
            found.append(_Found(ONE_PROCESSOR, recompute, _Plan(need), time, fits))
        return Searched(tuple(sorted(found, key=lambda one: not one.fits)), {}, {})


class _Plan:
    def __init__(self, memory):
        self.memory = memory


class _Time:
    def __init__(self, total):
        self.total = total


class _Found:
    def __init__(self, layout, recompute, plan, time, fits):
        self.layout, self.recompute, self.plan, self.time, self.fits = layout, recompute, plan, time, fits


def fitted(data, available, seconds=0.1):
    hardware = Hardware("gpu", available, 1, 1, 1, usable=1.0)
    search = Planned(available, seconds)
    return fit(data, search, hardware, 1, lambda _: None), search


CUBE = 64**3
CASES = [((60, 60, 60), (1.0, 1.0, 1.0))] * 100
FEW = CASES[:12]


def test_the_largest_batch_that_fits_is_chosen():
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32 * 8)
    assert (chosen.spacing.value, chosen.filters, chosen.batch_size.value) == ((1.0, 1.0, 1.0), 32, 4)
    assert "5% of them" in chosen.batch_size.reason
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32 * 3)
    assert (chosen.batch_size.value, chosen.recompute.value) == (2, False)
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32)
    assert (chosen.batch_size.value, chosen.recompute.value) == (1, False)


def test_a_small_data_set_has_a_larger_batch_if_memory_and_time_allow():
    chosen, _ = fitted(fingerprint(*FEW), CUBE * 32 * 8)
    assert (chosen.batch_size.value, chosen.recompute.value) == (4, False)
    chosen, _ = fitted(fingerprint(*FEW), CUBE * 32 * 2)
    assert (chosen.batch_size.value, chosen.batch_size.reason) == (2, "a larger batch does not fit")
    # 4,000 steps of 4 volumes take 44 hours at 10 s for each volume, and those of 2 volumes take 22 hours.
    chosen, _ = fitted(fingerprint(*FEW), CUBE * 32 * 8, seconds=10)
    assert chosen.batch_size.value == 2
    assert chosen.batch_size.reason.startswith(
        "a batch of 4 would train for 44 hours, an estimate; batches of more than"
    )
    # 2 volumes are in the rule of nnU-Net, however long they take.
    chosen, _ = fitted(fingerprint(*FEW), CUBE * 32 * 8, seconds=1000)
    assert chosen.batch_size.value == 2
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32 * 8, seconds=1)
    assert chosen.batch_size.value == 4


def test_recomputation_then_fewer_filters_then_a_coarser_spacing():
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 16)
    assert (chosen.spacing.value, chosen.filters, chosen.batch_size.value) == ((1.0, 1.0, 1.0), 32, 1)
    assert chosen.recompute.value
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 8)
    assert (chosen.spacing.value, chosen.filters, chosen.recompute.value) == ((1.0, 1.0, 1.0), 16, True)
    chosen, search = fitted(fingerprint(*CASES), 48**3 * 16)
    assert chosen.spacing.value == (1.25, 1.25, 1.25)
    assert chosen.grid.value == (48, 48, 48)
    assert chosen.filters == 32
    assert "coarser than 1,1,1 mm" in chosen.spacing.reason
    assert "x:64,y:64,z:64 voxels needs" in chosen.spacing.reason
    assert len(search.tried) == 3


def test_hopeless_steps_are_not_searched():
    huge = fingerprint(((1000, 1000, 600), (0.7, 0.7, 0.7)))
    chosen, search = fitted(huge, 300**3 * 8)
    assert len(search.tried) <= 6
    assert chosen.found.plan.memory <= 300**3 * 8


def test_volumes_larger_than_a_tfrecord_file_are_planned():
    chosen, _ = fitted(fingerprint(((1500, 1500, 1500), (0.5, 0.5, 0.5))), 1e15)
    assert chosen.spacing.value == (0.5, 0.5, 0.5)
    assert math.prod(chosen.grid.value) > max_voxels(ORGANS)


def test_what_no_device_holds_is_refused_with_the_numbers():
    with pytest.raises(ConfigError) as refused:
        fitted(fingerprint(*CASES), 2**14)
    message = str(refused.value)
    assert "no layout of 1 x gpu holds a training step of one volume" in message
    assert "needs 4.0 MiB per device at 1,1,1 mm (x:64,y:64,z:64)" in message
    assert "still 32.0 KiB at 3.814,3.814,3.814 mm (x:16,y:16,z:16, 16 filters)" in message
    assert "but 16.0 KiB are available (100% of 16.0 KiB)" in message
    assert message.endswith("Fix: use more devices, or devices with more memory.")
    assert refused.value.settings == ("num_devices", "hardware", "memory")


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planning")
    write_phantom(folder / "brain", 2, seed=1, kind="brain")
    return folder / "brain"


@pytest.mark.slow
def test_a_plan_of_two_channels_has_the_costs_of_its_step(phantoms):
    plan = mi.jobs.plan(
        task=build_task, data_dir=phantoms, num_devices=4, hardware="a100", workers=1, progress=False, memory=8 * 2**30
    )
    assert plan.hardware.memory == 8 * 2**30
    assert plan.dtype.value == "bfloat16"
    task = build_task(
        plan.fingerprint.description,
        {name: choice.value for name, choice in plan.network.items()},
        {name: choice.value for name, choice in plan.loss.items()},
    )
    assert isinstance(task, Segmentation)
    step = TrainingStep(task, Adam(), plan.grid.value, plan.batch_size.value, dtype=plan.dtype.value)
    best = search_step(step, 4, plan.hardware, progress=False).best
    assert best.layout == plan.layout.value
    assert best.plan.memory == plan.found.plan.memory <= 6 * 2**30
    assert plan.layout.value.processors == 4


def test_a_device_without_bfloat16_computes_in_float32():
    data = fingerprint(*[((60, 60, 60), (1.0, 1.0, 1.0))] * 2, description=LITS)
    plan = plan_fingerprint(data, build_task, 1, HARDWARE["v100"], progress=False)
    assert plan.dtype.value == "float32"
    assert plan.layout.value == ONE_PROCESSOR
    assert isinstance(build_task(LITS, {}, {}), LiverTumorSegmentation)


def test_more_devices_than_voxels_are_refused():
    data = fingerprint(((8, 8, 8), (1.0, 1.0, 1.0)))
    with pytest.raises(ConfigError, match=r"no layout keeps 31 devices busy with one volume of x:8,y:8,z:8: .* Fix"):
        plan_fingerprint(data, build_task, 31, HARDWARE["a100"], progress=False)


@pytest.mark.parametrize("memory", [0, -1.0, math.nan])
def test_an_impossible_memory_is_refused(phantoms, memory):
    with pytest.raises(ConfigError, match=r"memory is .* bytes, but must be above 0"):
        mi.jobs.plan(task=build_task, data_dir=phantoms, num_devices=1, hardware="a100", memory=memory)
