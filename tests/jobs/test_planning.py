"""Plans that fit the memory of a device, and whole plans of phantoms."""

import dataclasses
import math

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.runtime.plan_text import gin_text, plan_table
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.engine.turns.costs import TurnCosts
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs import searching
from mtf_imaging.jobs.choices.deciding import PATCHES, WHOLE, fit
from mtf_imaging.jobs.choices.network import choose_levels
from mtf_imaging.jobs.choices.patching import patch_sizes
from mtf_imaging.jobs.planning import plan_fingerprint
from mtf_imaging.jobs.searching import PlannedDevices, search_step
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, build_task
from mtf_imaging.planner.cost.hardware import HARDWARE, Hardware
from mtf_imaging.planner.search.search import Searched
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import TrainingStep
from tests.jobs.fingerprints import fingerprint


class Planned:
    """A search in which memory is proportional to voxels, filters and the batch, and halves with recomputation.

    A step takes `seconds` for each volume. In turns, a whole volume needs a share `in_turns` of the memory.
    """

    def __init__(self, available, seconds, in_turns=1.0):
        self.available, self.seconds, self.tried, self.in_turns = available, seconds, [], in_turns

    def __call__(self, variant):
        self.tried.append(variant)
        memory = math.prod(variant.sizes) * variant.filters * variant.batch_size
        found = []
        for recompute in (False, True):
            need = memory // (1 + recompute)
            fits = need <= self.available
            time = _Time(self.seconds * variant.batch_size)
            found.append(_Found(ONE_PROCESSOR, recompute, _Plan(need), time, fits))
        if not found[-1].fits and variant.patch is None and memory * self.in_turns <= self.available:
            costs = TurnCosts(8, 0, 0, 0, 0, 0, 0, 2**33, 2**34, 2**35)
            layout = Layout.parse("slabs:8", "x:slabs", "slabs")
            found.append(_Found(layout, False, _Plan(memory * self.in_turns, costs), _Time(self.seconds), True))
        return Searched(tuple(sorted(found, key=lambda one: not one.fits)), {}, {})


class _Plan:
    def __init__(self, memory, turns=None):
        self.memory, self.turns = memory, turns


class _Time:
    def __init__(self, total):
        self.total = total


class _Found:
    def __init__(self, layout, recompute, plan, time, fits):
        self.layout, self.recompute, self.plan, self.time, self.fits = layout, recompute, plan, time, fits


def fitted(data, available, seconds=0.1):
    decision, search = decided(data, available, "never", seconds)
    return decision.chosen, search


def decided(data, available, patches="auto", seconds=0.1, in_turns=1.0):
    hardware = Hardware("gpu", available, 1, 1, 1, usable=1.0)
    search = Planned(available, seconds, in_turns)
    return fit(data, search, hardware, 1, lambda _: None, patches), search


CUBE = 64**3
CASES = [((60, 60, 60), (1.0, 1.0, 1.0))] * 100
FEW = CASES[:12]


def test_the_largest_batch_that_fits_is_chosen():
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32 * 8)
    assert (chosen.spacing.value, chosen.filters, chosen.batch_size.value) == ((1.0, 1.0, 1.0), 32, 4)
    assert "5% of them" in chosen.batch_size.reason
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32 * 3)
    assert (chosen.batch_size.value, chosen.recompute.value) == (2, False)
    assert chosen.batch_size.reason == "a larger batch does not fit"
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 32)
    assert (chosen.batch_size.value, chosen.recompute.value) == (1, False)
    chosen, _ = fitted(fingerprint(*FEW), CUBE * 32 * 8)
    assert chosen.batch_size.value == 2


def test_a_step_sees_as_many_voxels_in_any_batch():
    alone, _ = fitted(fingerprint(*LARGE), 256**3 * 32)
    four, _ = fitted(fingerprint(*LARGE), 256**3 * 32 * 4)
    assert (alone.batch_size.value, four.batch_size.value) == (1, 4)
    assert (alone.num_steps.value, four.num_steps.value) == (62_500, 15_600)


def test_recomputation_then_fewer_filters():
    chosen, _ = fitted(fingerprint(*CASES), CUBE * 16)
    assert (chosen.spacing.value, chosen.filters, chosen.batch_size.value) == ((1.0, 1.0, 1.0), 32, 1)
    assert chosen.recompute.value
    chosen, search = fitted(fingerprint(*CASES), CUBE * 8)
    assert (chosen.spacing.value, chosen.filters, chosen.recompute.value) == ((1.0, 1.0, 1.0), 16, True)
    assert len(search.tried) == 2


def test_what_no_device_holds_is_refused_with_the_numbers():
    with pytest.raises(ConfigError) as refused:
        fitted(fingerprint(*CASES), 2**14)
    message = str(refused.value)
    assert message.startswith("a step on one volume of x:64,y:64,z:64 voxels needs 4.0 MiB per device, and 2.0 MiB")
    assert "with 16 filters, but 1 x gpu have 16.0 KiB each (100% of 16.0 KiB)" in message
    assert message.endswith("Fix: use more devices, devices with more memory, or an offload_dir with more space.")
    assert refused.value.settings == ("num_devices", "hardware", "memory", "offload_dir")


LARGE = [((256, 256, 256), (1.0, 1.0, 1.0))] * 100


def test_whole_volumes_that_fit_are_not_compared():
    decision, search = decided(fingerprint(*CASES), CUBE * 8)  # with 16 filters and recomputed activations
    assert (decision.kind.value, decision.chosen.patch, decision.other) == (WHOLE, None, None)
    assert all(variant.patch is None for variant in search.tried)


def test_turns_replace_patches():
    decision, search = decided(fingerprint(*LARGE), 64**3 * 64, in_turns=1 / 64)
    chosen = decision.chosen
    assert (decision.kind.value, decision.other, len(search.tried)) == (WHOLE, None, 1)
    assert (chosen.spacing.value, chosen.filters, chosen.patch) == ((1.0,) * 3, 32, None)
    assert chosen.batch_size == (1, "even one volume fits only in turns")
    assert chosen.layout == (
        Layout.parse("slabs:8", "x:slabs", "slabs"),
        "a volume does not fit at once, so a device computes 8 slabs in turn. The others wait in 8.0 GiB of "
        "offload_dir, or of host memory if there is a GPU; a step writes 16.0 GiB and reads 32.0 GiB",
    )
    assert decided(fingerprint(*LARGE), 64**3 * 64, "always", in_turns=1 / 64)[0].kind.value == PATCHES
    assert decided(fingerprint(*LARGE), 64**3 * 64, in_turns=1 / 8)[0].kind.value == PATCHES


def test_patches_keep_the_spacing_of_the_data_if_whole_volumes_do_not_fit():
    available = 64**3 * 64
    decision, search = decided(fingerprint(*LARGE), available)
    patch = decision.chosen
    assert (decision.kind.value, decision.other) == (PATCHES, None)
    assert (patch.spacing.value, patch.grid.value, patch.patch.value) == ((1.0,) * 3, (256,) * 3, (64, 64, 64))
    assert decision.kind.reason == (
        "whole volumes do not fit, not even in turns: a step on one volume of x:256,y:256,z:256 voxels needs 256.0 MiB "
        "per device, and 128.0 MiB with 16 filters; a patch has 1.6% of one"
    )
    assert (patch.num_steps.value, patch.batch_size.value) == (250_000, 2)
    # No larger patch fits.
    larger = [sizes for sizes in patch_sizes((256,) * 3, (1.0,) * 3, 64) if math.prod(sizes) > 64**3]
    assert larger
    assert all(math.prod(sizes) * 32 * 2 > available for sizes in larger)
    assert len([variant for variant in search.tried if variant.patch]) < len(larger)


def test_a_plan_of_patches_names_the_labels_that_may_need_whole_volumes():
    kidneys = Description(("CT",), {"lkid": 1, "rkid": 2}, {"lkid": (1,), "rkid": (2,)})
    decision, _ = decided(fingerprint(*LARGE, description=kidneys), 64**3 * 64)
    assert decision.kind.reason.endswith(
        "Labels name sides (lkid, rkid): an offload_dir with more space lets whole volumes fit"
    )


def test_a_large_data_set_has_a_larger_batch_of_patches():
    elongated = [((1024, 64, 64), (1.0, 1.0, 1.0))] * 100
    decision, _ = decided(fingerprint(*elongated), 64**3 * 32 * 4, "always")
    # A batch of 2 patches has 128 voxels along x, and no batch of 4 fits.
    assert (decision.chosen.patch.value, decision.chosen.batch_size.value) == ((128, 64, 64), 2)
    assert decision.kind == (PATCHES, "as the setting patches demands")
    decision, _ = decided(fingerprint(*[((80, 64, 64), (1.0,) * 3)] * 400), 64**3 * 32 * 8, "always")
    assert (decision.chosen.patch.value, decision.chosen.batch_size.value) == ((64, 64, 64), 8)
    assert "the largest that fits, with at most 5% of the voxels" in decision.chosen.batch_size.reason


def test_small_devices_have_fewer_filters_and_smaller_patches():
    decision, _ = decided(fingerprint(*LARGE), 64**3 * 32)
    assert (decision.chosen.patch.value, decision.chosen.filters) == ((64, 64, 64), 32)
    assert decision.chosen.recompute.value
    decision, _ = decided(fingerprint(*LARGE), 48**3 * 16)
    assert (decision.chosen.patch.value, decision.chosen.filters) == ((48, 48, 48), 16)
    decision, _ = decided(fingerprint(*LARGE), 32**3 * 8)
    assert (decision.chosen.patch.value, decision.chosen.batch_size.value) == ((32, 32, 32), 1)
    assert decision.other is None


def test_patches_that_are_always_wanted_but_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match=r"no patch of at least 32 voxels .* smaller than the volumes of x:32,y:32"):
        decided(fingerprint(((32, 32, 32), (1.0,) * 3)), 1e9, "always")
    with pytest.raises(ConfigError, match=r"Even patches of x:32,y:32,z:32 need 256\.0 KiB\. Fix: use more devices"):
        decided(fingerprint(*LARGE), 2**14)


@pytest.mark.parametrize(
    ("grid", "spacing"), [((512, 512, 512), (0.8,) * 3), ((310, 320, 20), (0.6, 0.6, 3.6)), ((500, 300, 1), (1.0,) * 3)]
)
def test_patches_have_even_levels_and_shrink_with_the_shape_of_the_volume(grid, spacing):
    tried = list(patch_sizes(grid, spacing, 64))
    for larger, patch in zip([grid, *tried], tried):
        assert sum(a != b for a, b in zip(larger, patch)) == 1
        assert math.prod(patch) < math.prod(larger)
        strides = choose_levels(patch, spacing).strides
        shrunk = [axis for axis in range(3) if patch[axis] < grid[axis]]
        assert all(patch[axis] >= 64 for axis in shrunk)
        changed = next(axis for axis in range(3) if larger[axis] != patch[axis])
        assert patch[changed] % strides[changed] == 0
    assert tried[-1] == tuple(min(size, 64) for size in grid)


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
    best = search_step(step, PlannedDevices(4, plan.hardware), progress=False).best
    assert best.layout == plan.layout.value
    assert best.plan.memory == plan.found.plan.memory <= 6 * 2**30
    assert plan.layout.value.processors == 4


def test_a_device_without_bfloat16_computes_in_float32():
    data = fingerprint(*[((60, 60, 60), (1.0, 1.0, 1.0))] * 2, description=LITS)
    plan = plan_fingerprint(data, build_task, 1, HARDWARE["v100"], progress=False)
    assert plan.dtype.value == "float32"
    assert plan.layout.value == ONE_PROCESSOR
    assert isinstance(build_task(LITS, {}, {}), LiverTumorSegmentation)
    assert plan.patch is None
    (planned,) = plan.alternatives
    assert planned.windows == 1
    assert 0 < planned.prediction.seconds < planned.seconds
    assert planned.receptive_field.covers_image


@pytest.mark.slow
def test_a_large_volume_on_a_small_device_is_planned_in_turns_or_on_patches(monkeypatch, tmp_path):
    data = fingerprint(*[((512, 512, 512), (0.8, 0.8, 0.8))] * 12)
    device = dataclasses.replace(HARDWARE["rtx4090"], memory=6 * 2**30)
    monkeypatch.setattr(searching, "free_space", lambda folder: 2**40)
    plan = plan_fingerprint(data, build_task, 1, device, progress=False, offload_dir=str(tmp_path))
    (turns,) = plan.alternatives
    assert (plan.kind.value, plan.patch, plan.grid.value) == (WHOLE, None, (512, 512, 512))
    assert max(plan.found.plan.memory, turns.prediction.plan.memory) <= 4.5 * 2**30
    text, table = gin_text(plan, "raw", {}), plan_table(plan)
    assert f"setup.layout = 'x:slabs'\nsetup.sequential = 'slabs'\nsetup.offload_dir = '{tmp_path}'\n" in text
    assert "turns        a volume does not fit at once, so a device computes " in table

    monkeypatch.setattr(searching, "free_space", lambda folder: 2**30)
    plan = plan_fingerprint(data, build_task, 1, device, progress=False)
    assert plan.kind.value == PATCHES
    (patches,) = plan.alternatives
    assert plan.found.plan.memory <= 4.5 * 2**30
    assert plan.spacing.value == (0.8, 0.8, 0.8)
    assert plan.grid.value == (512, 512, 512)
    assert plan.network["depth"].value == len(choose_levels(plan.patch.value, plan.spacing.value).kernel_sizes)
    assert patches.receptive_field.seen == dict(zip("xyz", plan.patch.value))
    assert patches.windows > 100


def test_more_devices_than_voxels_are_refused():
    data = fingerprint(((8, 8, 8), (1.0, 1.0, 1.0)))
    with pytest.raises(ConfigError, match=r"no layout keeps 31 devices busy with one volume of x:8,y:8,z:8: .* Fix"):
        plan_fingerprint(data, build_task, 31, HARDWARE["a100"], progress=False)


@pytest.mark.parametrize("memory", [0, -1.0, math.nan])
def test_an_impossible_memory_is_refused(phantoms, memory):
    with pytest.raises(ConfigError, match=r"memory must be a number above 0, not "):
        mi.jobs.plan(task=build_task, data_dir=phantoms, num_devices=1, hardware="a100", memory=memory)
