"""The names of the package's classes in gin files, and messages about parameters without a value."""

from types import SimpleNamespace

import gin
import pytest

from mtf_imaging.cli.config import training_settings
from mtf_imaging.cli.runtime.failures import exit_code, explain
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.kinds.photos.data_set import PhotoAugmentation, Photos
from mtf_imaging.training import optimizers

CLASSES = {
    "Augmentation": Augmentation,
    "PhotoAugmentation": PhotoAugmentation,
    "Photos": Photos,
    **{name: getattr(optimizers, name) for name in optimizers.__all__ if name != "Optimizer"},
}


def make(name, *bindings):
    """Returns the object that `@name()` creates in a gin file with these bindings."""
    gin.parse_config([*bindings])
    return gin.get_configurable(name)()


@pytest.mark.parametrize("name", CLASSES)
def test_a_gin_file_may_name_every_class(name):
    needed = {"CosineDecay": ["CosineDecay.steps = 9"], "PolyDecay": ["mtf_imaging.PolyDecay.steps = 9"]}
    needed["MilestoneDecay"] = ["MilestoneDecay.milestones = (9,)"]
    needed["WarmUp"] = ["WarmUp.schedule = 0.1"]
    assert type(make(name, *needed.get(name, []))) is CLASSES[name]


def test_values_of_gin_files_reach_the_optimizers():
    assert make("Adam", "Adam.learning_rate = @ExponentialDecay()", "ExponentialDecay.initial = 0.5").learning_rate(
        0
    ) == pytest.approx(0.5)
    optimizer = make("Adafactor", "Adafactor.learning_rate = @StepDecay()", "Adafactor.factored = False")
    assert optimizer.learning_rate(20_000) == pytest.approx(0.3 * 0.003)
    assert not optimizer._factored
    assert make("SGD", "SGD.momentum = 0.1")._momentum == 0.1


def test_values_of_gin_files_reach_the_schedules():
    schedules = ["SGD.learning_rate = @WarmUp()", "WarmUp.schedule = @PolyDecay()", "WarmUp.steps = 2"]
    assert make("SGD", *schedules, "PolyDecay.steps = 10").learning_rate(0) == pytest.approx(0.01 / 2)
    assert make("CosineDecay", "CosineDecay.steps = 20")(10) == pytest.approx(0.003 / 2)


def test_values_of_gin_files_do_not_change_calls_in_python():
    make("SGD", "SGD.momentum = 0.1", "Augmentation.noise = 0.5")
    assert optimizers.SGD()._momentum == 0.9
    assert Augmentation().noise == 0.0


def test_intensities_of_gin_files_reach_records():
    gin.parse_config(["Records.intensities = {'FLAIR': 'z-score'}", "train.num_steps = 1", "train.optimizer = None"])
    training = training_settings.Training()
    data = training.source(
        SimpleNamespace(window=(0.0, 1.0)), SimpleNamespace(spacing=None), data_dir="folder"
    ).data_set
    assert type(data) is Records
    assert (data.intensities, data.window) == ({"FLAIR": "z-score"}, (0.0, 1.0))


def missing(name, *bindings):
    """Returns the message and the exit code for a missing value."""
    with pytest.raises((TypeError, RuntimeError)) as error:
        make(name, *bindings)
    return explain(error.value), exit_code(error.value)


@pytest.mark.parametrize(
    ("name", "bindings", "parameter"),
    [
        ("PolyDecay", ["PolyDecay.power = 1.0"], "PolyDecay.steps"),
        ("WarmUp", [], "WarmUp.schedule"),
        ("Adam", ["Adam.learning_rate = @CosineDecay()"], "CosineDecay.steps"),
        ("train", ["train.optimizer = @SGD()"], "train.num_steps"),
    ],
)
def test_a_parameter_without_a_value_is_reported(name, bindings, parameter):
    assert missing(name, *bindings) == (
        f"{parameter} has no value. Fix: set it in a gin file, {parameter} = VALUE, "
        f"or on the command line, --gin.{parameter}=VALUE.",
        2,
    )


def test_all_parameters_without_a_value_are_reported():
    assert missing("train") == (
        "train.num_steps, train.optimizer have no value. Fix: set each in a gin file, train.num_steps = VALUE, "
        "or on the command line, --gin.train.num_steps=VALUE.",
        2,
    )


@gin.configurable(module="tests")
class HalvingRate:
    def __init__(self, initial, every):
        self.initial, self.every = initial, every


@gin.configurable(module="tests")
class Signs(optimizers.Optimizer):
    """An optimizer that inherits `__init__`."""


def test_parameters_of_custom_classes_are_reported():
    assert missing("HalvingRate")[0].startswith(
        "HalvingRate.initial, HalvingRate.every have no value. Fix: set each in a gin file"
    )
    assert missing("Signs")[0].startswith("Signs.learning_rate has no value. Fix: set it in a gin file, Signs.lear")


def test_an_error_within_a_function_keeps_its_traceback():
    def call():
        raise TypeError("f() missing 1 required positional argument: 'x'")

    with pytest.raises(TypeError) as error:
        call()
    assert explain(error.value) is None
    gin.external_configurable(call, "broken", module="tests")
    with pytest.raises(TypeError, match="In call to configurable 'broken'") as error:
        make("broken")
    assert explain(error.value) is None
