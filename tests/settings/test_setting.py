"""A setting is declared once: flags, help, keyword arguments, checks and agreements follow from its field."""

import dataclasses
import inspect
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from absl import flags

import mtf_imaging as mi
from mtf_imaging.cli.config import configurables, flags_of_settings, groups
from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.processes.devices import check_agreement
from mtf_imaging.settings import data, inference, planning, step, training
from mtf_imaging.settings.setting import Settings, agreed, changed, setting, settings, settings_of, takes, values_of
from mtf_imaging.settings.step import Devices
from mtf_imaging.settings.training import DataSettings, TrainSettings

MODULES = (data, inference, planning, step, training)


@settings
class Rates(Settings):
    """The rates of a training.

    Attributes:
      first: rate of the first step, above `last`.
      last: rate of the last step.
      kind: shape of the curve.
      steps: numbers of the steps.
      is_shown: whether to show the rates.
    """

    first: float = setting(unit="1/step", above=0, flag=True)
    last: float = setting(default=0.5, least=0, most=1, flag="end")
    kind: str = setting(default="linear", choices=("linear", "step"), flag=True)
    steps: Sequence[int] = setting(default=(1, 2), unit="steps", flag=True)
    is_shown: bool = setting(default=False, flag=True, shared=False)


@takes(Rates)
def schedule(own: Rates) -> tuple[float, float]:
    """Returns two rates.

    Returns:
      The first and the last rate.
    """
    return own.first, own.last


def all_settings():
    classes = {cls for module in MODULES for cls in vars(module).values() if dataclasses.is_dataclass(cls)}
    return [(cls.__name__, one) for cls in classes if isinstance(cls, type) for one in settings_of(cls)]


def parsed(*argv: str) -> flags.FlagValues:
    values = flags.FlagValues()
    flags_of_settings.define(values, Rates)
    values(["program", *argv])
    return values


def test_flags_have_the_types_defaults_and_meanings_of_the_settings():
    values = parsed("--first=2", "--end=0.3", "--kind=step", "--steps=4,5", "--is_shown")
    assert vars(FlagSettings(values, Rates)) == {
        "first": 2.0,
        "last": 0.3,
        "kind": "step",
        "steps": [4, 5],
        "is_shown": True,
    }
    assert vars(FlagSettings(parsed(), Rates))["steps"] == [1, 2]
    assert values["first"].help == "Rate of the first step, above --end."
    assert values["is_shown"].help == "Show the rates."
    assert flags_of_settings.required(Rates) == ("first",)
    with pytest.raises(ConfigError, match=r"--steps=a: needs numbers of steps. Fix: for instance --steps=0,2."):
        FlagSettings(parsed("--steps=a"), Rates)


def test_a_flag_of_a_gin_parameter_has_no_default_and_is_spelled_in_other_meanings():
    values = flags.FlagValues()
    flags_of_settings.define(values, Rates, without=["last"], bound={"last": "train.last", "kind": "train.kind"})
    assert (values["kind"].default, "end" in values) == (None, False)
    assert values["first"].help == "Rate of the first step, above train.last."


def test_keyword_arguments_follow_from_the_fields():
    assert schedule(first=1.0) == (1.0, 0.5)
    signature = inspect.signature(schedule)
    assert [*signature.parameters] == ["first", "last", "kind", "steps", "is_shown"]
    assert signature.parameters["first"].default is inspect.Parameter.empty
    assert signature.parameters["last"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "Args:\n  first: rate of the first step, above `last`.\n" in schedule.__doc__
    assert schedule.__doc__.index("Args:") < schedule.__doc__.index("Returns:")
    with pytest.raises(TypeError, match=r"^schedule\(\) missing a required argument: 'first'"):
        schedule()
    with pytest.raises(TypeError, match=r"^schedule\(\) got an unexpected keyword argument 'lst'"):
        schedule(first=1.0, lst=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "steps"}, "kind = 'steps' is not known. Did you mean 'step'? Fix: choose one of linear, step."),
        ({"steps": ()}, "steps must be a tuple in which each element is an int, not ()."),
        ({"steps": (1, True)}, "steps must be a tuple in which each element is an int, not (1, True)."),
        ({"last": float("nan")}, "last must be a number of at least 0 and at most 1, not nan."),
        ({"last": "0.5"}, "last must be a number of at least 0 and at most 1, not '0.5'."),
        ({"last": 1.5}, "last must be a number of at least 0 and at most 1, not 1.5."),
        ({"first": 0}, "first must be a number above 0, not 0."),
        ({"is_shown": "no"}, "is_shown must be True or False, not 'no'."),
    ],
)
def test_values_are_checked(values, message):
    with pytest.raises(ConfigError) as error:
        Rates(**{"first": 1.0} | values)
    assert (str(error.value), [*error.value.settings]) == (message, [*values])


def test_a_setting_without_the_one_that_it_needs_is_refused():
    shared = {"task": None, "data": "here", "model_dir": "run"}
    for given in ({"centered_patches": 0.0}, {"initial_weights_except": ["a"]}, {"centered_labels": {"lesion": 1}}):
        ((name, value),) = given.items()
        with pytest.raises(ConfigError) as error:
            TrainSettings(**shared, **given)
        needs = "initial_weights" if name == "initial_weights_except" else "patch"
        assert str(error.value).startswith(
            f"{name} = {value!r} has no effect without {needs}. Fix: give both, or leave"
        )
    TrainSettings(**shared, centered_patches=0.0, patch=8, initial_weights_except=[])


def test_a_setting_that_is_declared_again_keeps_its_facts():
    @settings
    class Own(Settings):
        """Own settings."""

        kind: str = changed(Rates, "kind", default="step")

    (one,) = settings_of(Own)
    assert (one.meaning, one.default, one.choices) == ("shape of the curve.", "step", ("linear", "step"))


def test_values_come_from_the_first_source_that_has_them():
    sources = SimpleNamespace(first=1.0, other=0), SimpleNamespace(first=2.0, kind="step")
    assert values_of(Rates, *sources, last=4) == {"first": 1.0, "last": 4, "kind": "step"}


def test_every_setting_has_a_meaning_and_an_example_or_a_flag_that_gin_knows():
    assert len(all_settings()) > 100
    assert not [(owner, one.name) for owner, one in all_settings() if not one.meaning.endswith((".", ")"))]
    assert set(groups.examples()) <= set(groups.PARAMETERS)


def group_of_two(compared: dict):
    return SimpleNamespace(num=2, agree=compared.update)


def test_processes_agree_on_every_shared_setting():
    compared = {}
    own = TrainSettings(
        task=object(), data="here", model_dir="run", layout=Layout.parse("rows:2", "x:rows"), checkpoints_kept=7
    )
    check_agreement(group_of_two(compared), own, data=mi.jobs.TrainingData("here", fold=1))
    names = {name.removeprefix("the argument ") for name in compared if name.startswith("the argument ")}
    assert {"layout", "checkpoints_kept", "checkpoint_async", "num_steps", "task", "data", "model_dir"} <= names
    assert not {"progress", "stop", "save_configuration", "handle_signals"} & names
    assert agreed(own).keys() | {"data"} == names
    more = dataclasses.replace(own, checkpoints_kept=8, layout=Layout.parse("", ""))
    differ = []
    for other, folder, fold in ((more, "here", 1), (own, "there", 1), (own, "here", 2)):
        check_agreement(group_of_two(facts := {}), other, data=mi.jobs.TrainingData(folder, fold=fold))
        keys = {name: f"the argument {name}" for name in names}
        differ.append({name for name, key in keys.items() if facts[key] != compared[key]})
    assert differ == [{"checkpoints_kept", "layout"}, set(), {"data"}], "folders may have other names on other hosts"


def test_gin_parameters_follow_from_the_fields():
    configurables.import_all()
    found = {one.name: one for one in configurables.parameters()}
    for cls in (training.RunSettings, training.FoldSettings, *groups.SETUP, *groups.JOB):
        for one in settings_of(cls):
            parameter = found[groups.PARAMETERS[one.name]]
            assert parameter.meaning == one.meaning
            assert parameter.type.endswith(one.unit)
    assert found["train.num_steps"].default is None, "a job names its number of steps"


def test_settings_with_several_parts_keep_their_positional_arguments():
    assert Devices("placement", "ring") == Devices(mesh_impl="placement", communication="ring")
    assert mi.jobs.TrainingData("records").data_dir == "records"
    assert {one.name for one in settings_of(mi.jobs.TrainingData)} == {one.name for one in settings_of(DataSettings)}
