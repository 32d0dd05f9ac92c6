"""The settings that only some kinds of data take: one rule refuses them for the others."""

import pytest

from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.all_kinds import KINDS, check_settings, settings_not_taken
from mtf_imaging.kinds.kind import Kind
from mtf_imaging.settings.inference import EvaluateSettings, FlipSettings, InferenceSettings, PredictSettings
from mtf_imaging.settings.refused import check_taken, with_added
from mtf_imaging.settings.setting import Settings, filled, setting, settings, settings_of, takes
from mtf_imaging.settings.training import TrainSettings

GIVEN = {"task": None, "model_dir": "run", "input": "a", "output": "b"}


@settings
class TileSettings(Settings):
    """The settings of tiles.

    Attributes:
      overlap: pixels that neighboring tiles share.
    """

    overlap: int = setting(default=0, unit="pixels", least=0, flag=True)


class TileKind(Kind):
    name = title = images = "tiles"
    settings = (FlipSettings, TileSettings)


KINDS_WITH_TILES = (*KINDS.values(), TileKind())


@takes(PredictSettings, more=lambda cls: with_added(cls, KINDS_WITH_TILES))
def predict(own: PredictSettings) -> PredictSettings:
    """Returns the settings."""
    return own


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("photos", {"submission": True}, "submission = True has no effect on photos: it is a setting of volumes."),
        ("photos", {"spacing": [1.0, 2.0]}, "spacing = [1.0, 2.0] has no effect on photos: it is a setting of volumes"),
        ("volumes", {"scales": (2.0,)}, "scales = (2.0,) has no effect on volumes: it is a setting of images with obj"),
        (
            "objects",
            {"ensemble": True},
            "has no effect on images with objects: it is a setting of volumes, photos, arr",
        ),
        ("arrays", {"flips": ["x"]}, "flips = ['x'] has no effect on arrays: it is a setting of volumes, images with"),
    ],
)
def test_a_setting_of_another_kind_is_refused(kind, given, text):
    with pytest.raises(ConfigError) as error:
        check_settings(PredictSettings(**GIVEN, **given), KINDS[kind])
    assert text in str(error.value)
    assert str(error.value).endswith("Fix: leave it out.")
    assert [*error.value.settings] == [*given]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_defaults_and_the_settings_that_no_kind_declares(kind):
    check_settings(PredictSettings(**GIVEN, scales=[1.0], flips=[], dtype="bfloat16", overwrite=True), KINDS[kind])
    check_settings(TrainSettings(task=None, data="a", model_dir="run", seed=3), KINDS[kind])


def test_kinds_take_the_settings_that_have_an_effect_on_them():
    refused = {name: {*settings_not_taken(kind)} for name, kind in KINDS.items()}
    assert refused["volumes"] == {"scales", "split", "eval_batch_size"}
    of_volumes = {"patch", "centered_patches", "centered_labels", "fold", "num_folds", "splits_file", "split_seed"}
    of_volumes |= {"fold_digest", "spacing", "spacing_table", "window", "sliding_window", "window_step", "cleanup"}
    of_volumes |= {"choose_cleanup", "output_format", "label_codes", "probabilities", "uncertainty", "submission"}
    assert refused["photos"] == of_volumes
    assert refused["objects"] == of_volumes | {"ensemble"}
    assert refused["arrays"] == of_volumes | {"flips", "scales", "split"}


def test_a_kind_adds_a_setting_that_the_others_refuse():
    own = predict(**GIVEN, overlap=3)
    assert filled(TileSettings, own).overlap == 3
    check_taken(own, TileKind(), KINDS_WITH_TILES)
    for kind in KINDS.values():
        with pytest.raises(ConfigError, match=f"overlap = 3 has no effect on {kind.title}: it is a setting of tiles"):
            check_taken(own, kind, KINDS_WITH_TILES)
    with pytest.raises(ConfigError, match="overlap must be an int of at least 0, not -1"):
        predict(**GIVEN, overlap=-1)
    with pytest.raises(TypeError, match=r"predict\(\) got an unexpected keyword argument 'overlaps'"):
        predict(**GIVEN, overlaps=3)


def test_only_settings_that_no_job_has_are_added():
    added = {one.name for one in settings_of(with_added(EvaluateSettings, KINDS_WITH_TILES))}
    assert added - {one.name for one in settings_of(EvaluateSettings)} == {"overlap"}
    assert with_added(InferenceSettings, KINDS.values()) is InferenceSettings
