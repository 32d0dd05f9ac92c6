"""The table of kinds: every kind has its modules, and recognizes its folders and data sets."""

import json

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.errors import DataError
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.all_kinds import KINDS, detect_kind, explained, kind_of_data_set, kind_of_facts, read_facts
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.objects.generator import write_objects
from mtf_imaging.kinds.photos.scenes import write_scenes
from mtf_imaging.kinds.predicted import PredictedImages

DATA_SETS = {"volumes": mi.data.Records(), "photos": mi.data.Photos(), "objects": mi.data.Objects(), "arrays": object()}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns a folder of each kind; the arrays are files that no kind recognizes."""
    folder = tmp_path_factory.mktemp("kinds")
    write_phantom(folder / "volumes", 1, seed=1)
    write_scenes(folder / "photos", 4, seed=1, progress=False)
    write_objects(folder / "objects", 4, seed=1, progress=False)
    (folder / "arrays").mkdir()
    np.save(folder / "arrays/image.npy", np.zeros((2, 2, 1)))
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_its_modules(name):
    kind = KINDS[name]
    assert kind.name == name
    assert type(kind.training(DATA_SETS[name])).__module__ == f"mtf_imaging.kinds.{name}.training"
    assert any(PredictedImages in getattr(one, "__mro__", ()) for one in vars(kind._part("images")).values())
    assert callable(kind._part("signatures").exported)
    assert not kind.demos or kind._part("demo").Demo.processors > 1


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_recognizes_its_folders_and_data_sets(folders, name):
    assert kind_of_data_set(DATA_SETS[name]) is KINDS[name]
    assert detect_kind(folders / name) is (None if name == "arrays" else KINDS[name])


@pytest.mark.parametrize("own", ["volumes", "photos", "objects"])
@pytest.mark.parametrize("needed", KINDS)
def test_another_kind_of_folder_explains_an_error(folders, own, needed):
    with pytest.raises(DataError) as error, explained(folders / own, KINDS[needed], "input_dir", "model_dir"):
        raise DataError("nothing here")
    text = f"{folders / own}: holds {KINDS[own].title}, but {KINDS[needed].title} are needed here. Fix: give "
    assert str(error.value).startswith("nothing here" if own == needed else text)


@pytest.mark.parametrize(
    ("facts", "stored"),
    [
        (Facts("volumes", "8", ""), {"resolution": "8", "spacing": "", "fold_digest": None}),
        (Facts("arrays", "x:8,y:8"), {"resolution": "x:8,y:8", "spacing": None, "fold_digest": None}),
        (
            Facts("volumes", "8", "1,1,2", "abc", {"channels": ["CT"]}, class_frequencies=[0.5]),
            {"resolution": "8", "spacing": "1,1,2", "fold_digest": "abc"}
            | {"description": {"channels": ["CT"]}, "class_frequencies": [0.5]},
        ),
        (
            Facts("objects", "height:8,width:8", description={"categories": []}, held_out_split="val"),
            {"resolution": "height:8,width:8", "spacing": None, "fold_digest": None}
            | {"objects": {"categories": []}, "held_out_split": "val"},
        ),
    ],
)
def test_the_file_of_facts_names_the_kind_by_its_description(tmp_path, facts, stored):
    facts.save(tmp_path)
    text = (tmp_path / FACTS).read_text()
    assert text == json.dumps(stored, indent=1) + "\n"
    assert read_facts(tmp_path) == facts
    assert kind_of_facts(facts).name == facts.kind


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"resolution": "8", "unknown": 1}'])
def test_a_damaged_file_of_facts_is_reported(tmp_path, text):
    (tmp_path / FACTS).write_text(text)
    with pytest.raises(
        DataError, match=r"(this file is damaged: |not a JSON|contains a list).* Fix: delete it, then train again"
    ):
        read_facts(tmp_path)
