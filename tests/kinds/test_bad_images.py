"""Bad images among good ones: all are reported after the good ones are done."""

from types import SimpleNamespace

import numpy as np
import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.inference import Inference
from mtf_imaging.kinds.objects import prediction as objects
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.kinds.photos import prediction as photos
from mtf_imaging.kinds.prediction_record import PredictionRecord
from mtf_imaging.network.network import of_function
from tests.jobs.object_network import CATEGORIES, write_objects_folder
from tests.jobs.photo_network import CLASSES, write_photos

SIZE = "height:16,width:24"


# Equal probabilities of three classes.
EVEN = of_function(lambda image: np.full((*image.shape[:2], 3), 1 / 3, np.float32), 3, 3)


def check(error, folder, keys, kind):
    head, *lines = str(error).splitlines()
    assert head.endswith(f"{kind} cannot be used:")
    assert [line.split(": ")[0] for line in lines] == [f"  {folder}/{key}.png" for key in keys]
    assert "KeyError: 'tag'" in lines[-1]


def fail_on(monkeypatch, module, function, path):
    """Makes a function of a module raise KeyError for one file."""
    original = getattr(module, function)

    def failing(first, *others, **options):
        if getattr(first, "image", first) == path:
            raise KeyError("tag")
        return original(first, *others, **options)

    monkeypatch.setattr(module, function, failing)


def predict(subject, pairs, network, own):
    record, faults = PredictionRecord(subject.prediction_files(pairs, own.input, own.output)), CaseFaults()
    subject.predict(pairs, network, own, record, faults)
    faults.check((image.key for image, _ in pairs), "images")


def test_photos(tmp_path, monkeypatch):
    folder = write_photos(tmp_path / "photos", lists=False)
    (folder / "images/photo_1.png").write_bytes(b"no PNG")
    fail_on(monkeypatch, photos, "read_photo", folder / "images/photo_4.png")
    fail_on(monkeypatch, photos, "read_labeled_photo", folder / "images/photo_4.png")
    facts = Facts("photos", SIZE, description=CLASSES.to_fields())
    subject = photos.Prediction(tmp_path / "run", facts, Inference())
    planned = subject.plan_predictions(folder, tmp_path / "out", False)
    own = SimpleNamespace(input=folder, output=tmp_path / "out", progress=False)
    with pytest.raises(DataError) as caught:
        predict(subject, planned.pairs, EVEN, own)
    check(caught.value, folder / "images", ["photo_1", "photo_4"], "2 of 6 images")
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.png")) == [f"photo_{n}" for n in (0, 2, 3, 5)]

    own = SimpleNamespace(input_dir=folder, output_dir=tmp_path / "scores", num_pictures=1, progress=False)
    with pytest.raises(DataError) as caught:
        subject.evaluate(subject.find_labeled(folder, own.output_dir), EVEN, own)
    check(caught.value, folder / "images", ["photo_1", "photo_4"], "2 of 6 photos")
    assert len([*(tmp_path / "scores/predictions").iterdir()]) == 4
    assert not (tmp_path / "scores/metrics.json").exists()


def test_objects(tmp_path, monkeypatch):
    write_objects_folder(tmp_path / "objects")
    folder = tmp_path / "objects"
    images = sorted((folder / "train").glob("*.png"))
    images[0].write_bytes(b"no PNG")
    fail_on(monkeypatch, objects, "read_object_image", images[1])
    none = Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0, int))
    monkeypatch.setattr(objects, "predict_batch", lambda read, *_, **__: [none] * len(read))
    facts = Facts("objects", SIZE, description=CATEGORIES.to_fields())
    subject = objects.Prediction(tmp_path / "run", facts, Inference(split="train"))
    keys = [path.stem for path in images[:2]]
    own = SimpleNamespace(input=folder, output=tmp_path / "out", progress=False)
    planned = subject.plan_predictions(own.input, own.output, False)
    with pytest.raises(DataError) as caught:
        predict(subject, planned.pairs, EVEN, own)
    check(caught.value, folder / "train", keys, f"2 of {len(planned.pairs)} images")
    assert len([*(tmp_path / "out").rglob("*.png")]) == len(planned.pairs) - 2

    own = SimpleNamespace(input_dir=folder, output_dir=tmp_path / "scores", num_pictures=1, progress=False)
    with pytest.raises(DataError) as caught:
        subject.evaluate(subject.find_labeled(folder, own.output_dir), EVEN, own)
    check(caught.value, folder / "train", keys, f"2 of {len(images)} images")
