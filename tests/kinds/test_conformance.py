"""What predictions and evaluations of all kinds have in common: batches, errors of single images, and resuming."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.engine.meshes.group import ALONE
from mtf_imaging.errors import DataError
from mtf_imaging.inference.network import Network, Slices, of_function
from mtf_imaging.kinds.all_kinds import KINDS
from mtf_imaging.kinds.arrays.images import Arrays
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.image_settings import Inference
from mtf_imaging.kinds.objects.images import Images as ObjectImages
from mtf_imaging.kinds.photos.images import Images as PhotoImages
from mtf_imaging.kinds.prediction_record import FILE, PredictionRecord
from tests.jobs.object_network import CATEGORIES, write_objects_folder
from tests.jobs.photo_network import CLASSES, write_photos
from tests.kinds import loops
from tests.kinds.curves import Curves, smooth, write_curves
from tests.kinds.volumes import volumes
from tests.leftovers import ended_path
from tests.records import contents

SHARED = "detections.json", "images.json"  # the files about all images
GRID, SIZE = (6, 5, 4), "height:16,width:24"


class Example(NamedTuple):
    """Images of a kind.

    Attributes:
      write: writes a folder of at least five images.
      images: returns the images of a run with some settings.
      network: a network whose prediction depends on the image.
      bad: the keys of two images that are not in one batch of two.
      is_scored: whether the kind has labels.
      scored: other arguments of `images` for scores.
    """

    write: Callable[[Path], object]
    images: Callable[..., object]
    network: Network
    bad: tuple[str, str]
    is_scored: bool = True
    scored: Mapping[str, object] = MappingProxyType({})


def write_volumes(folder):
    folder.mkdir()
    for number in range(5):
        labels = np.random.default_rng(number).integers(0, 3, GRID).astype(np.uint8)
        for name, array in (("volume", np.int16(labels) * 400 - 400), ("segmentation", labels)):
            nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), folder / f"{name}-{number}.nii.gz")


def write_arrays(folder):
    folder.mkdir()
    for number in range(5):
        np.save(folder / f"image_{number}.npy", np.random.default_rng(number).random((4, 3, 2)))


def near(values):
    """Returns a function of an image: the probability of a class is high where its value is near."""
    return lambda image: np.exp(-np.abs(image[..., :1] - np.array(values))).astype(np.float32)


def detect(images):
    """Returns one detection in each image, whose score is the mean brightness."""
    number = len(images)
    return {
        "boxes": np.tile(np.float32([[2, 3, 9, 12]]), (number, 1, 1)),
        "scores": np.clip(np.abs(images).mean(axis=(1, 2, 3)), 0.1, 1)[:, None],
        "classes": np.zeros((number, 1), np.int32),
    }


def boxes_of(sizes):
    return Slices(ALONE, [tuple(slice(0, n) for n in (*sizes, 3))], {}, detect, [slice(0, 1)])


EXAMPLES = {
    "volumes": Example(
        write_volumes,
        lambda **settings: volumes(Sampling(GRID), **settings),
        of_function(near([0.1, 0.5, 0.9]), 1, 3),
        ("1", "4"),
        scored={"is_scored": True},
    ),
    "photos": Example(
        lambda folder: write_photos(folder, lists=False, sizes=((20, 30), (20, 30), (17, 23))),
        lambda **settings: PhotoImages(
            Path("run"), Facts("photos", SIZE, description=CLASSES.to_fields()), Inference(**settings)
        ),
        of_function(near([-0.5, 0, 0.5]), 3, 3),
        ("photo_1", "photo_4"),
    ),
    "objects": Example(
        lambda folder: write_objects_folder(folder),
        lambda **settings: ObjectImages(
            Path("run"),
            Facts("objects", SIZE, description=CATEGORIES.to_fields(), held_out_split="train"),
            Inference(**settings),
        ),
        Network(boxes_of),
        ("p1", "p3"),
    ),
    "arrays": Example(
        write_arrays,
        lambda **settings: Arrays(Path("run"), Facts("arrays", "height:4,width:3"), Inference(**settings)),
        of_function(lambda image: image**2, 2, 2),
        ("image_1", "image_4"),
        is_scored=False,
    ),
    "curves": Example(write_curves, Curves, of_function(smooth, 1, 1), ("curve_1", "curve_4")),
}
SCORED = [name for name, example in EXAMPLES.items() if example.is_scored]
BATCHED = [name for name in EXAMPLES if name != "volumes"]


@pytest.fixture
def folder(request, tmp_path):
    EXAMPLES[request.param].write(tmp_path / "images")
    return request.param, tmp_path / "images"


def intercept(images, change):
    """Calls a function with the keys of each batch before its images are predicted."""
    original = images.steps

    def steps(network):
        own = original(network)

        def infer(batch, read):
            change([image.key for image in batch])
            return own.infer(batch, read)

        return dataclasses.replace(own, infer=infer)

    images.steps = steps


def failing(keys):
    """Returns a function that raises an unexpected error for the first of some images, and a DataError for others."""

    def change(batch):
        for key in batch:
            if key in keys:
                raise KeyError("tag") if key == keys[0] else DataError(f"{key} is bad")

    return change


def predict(images, folder, output, network, resumes=False):
    planned = images.plan_predictions(folder, output, False)
    files = images.prediction_files(planned.pairs, folder, output)
    record = PredictionRecord(files, {"checkpoint": "1"})
    if resumes:
        record.check()
    loops.predict(images, folder, output, network, planned=planned, record=record)
    return [image.key for image, _ in planned.pairs]


def test_every_kind_is_tested():
    assert {*EXAMPLES} == {*KINDS, "curves"}, "curves are a kind of its own, in tests"


@pytest.mark.parametrize(
    ("folder", "size"), [*((name, 1) for name in EXAMPLES), *((name, 2) for name in BATCHED)], indirect=["folder"]
)
def test_bad_images_are_reported_after_the_others_are_predicted(folder, tmp_path, size):
    name, folder = folder
    example = EXAMPLES[name]
    whole = example.images()
    keys = predict(whole, folder, tmp_path / "whole", example.network)
    images = example.images(eval_batch_size=size)
    intercept(images, failing(example.bad))
    with pytest.raises(DataError) as caught:
        predict(images, folder, tmp_path / "out", example.network)
    head, *lines = str(caught.value).splitlines()
    assert head == f"2 of {len(keys)} {images.nouns} cannot be used:"
    assert "cannot be used (KeyError: 'tag')" in lines[0]
    assert lines[1].endswith(f"{example.bad[1]} is bad")
    expected, written = (contents(tmp_path / out, FILE, *SHARED) for out in ("whole", "out"))
    is_good = [path for path in expected if not any(Path(path).name.split(".")[0].endswith(key) for key in example.bad)]
    assert len(is_good) < len(expected)
    assert written == {path: expected[path] for path in is_good}


@pytest.mark.parametrize("folder", SCORED, indirect=True)
def test_bad_images_are_reported_after_the_others_are_scored(folder, tmp_path):
    name, folder = folder
    example = EXAMPLES[name]
    images = example.images(**example.scored)
    intercept(images, failing(example.bad))
    with pytest.raises(DataError, match=rf"2 of \d+ {images.nouns} cannot be used:") as caught:
        loops.evaluate(images, folder, tmp_path / "scores", example.network, progress=False)
    assert f"{example.bad[1]} is bad" in str(caught.value)
    assert not (tmp_path / "scores/metrics.json").exists()  # scores of fewer images could go unnoticed


@pytest.mark.parametrize("folder", BATCHED, indirect=True)
def test_batches_change_no_results(folder, tmp_path):
    name, folder = folder
    example, sizes = EXAMPLES[name], []
    for size in (1, 2, 3):
        images = example.images(eval_batch_size=size)
        intercept(images, lambda keys: sizes.append(len(keys)))
        predict(images, folder, tmp_path / f"out{size}", example.network)
        assert contents(tmp_path / f"out{size}") == contents(tmp_path / "out1")
        if example.is_scored:
            loops.evaluate(images, folder, tmp_path / f"scores{size}", example.network, progress=False)
            assert contents(tmp_path / f"scores{size}") == contents(tmp_path / "scores1")
    assert max(sizes) == (2 if name == "photos" else 3)  # photos of several sizes are not in one batch


@pytest.mark.parametrize("folder", EXAMPLES, indirect=True)
def test_an_interrupted_prediction_is_completed(folder, tmp_path):
    name, folder = folder
    example, calls = EXAMPLES[name], []
    keys = predict(example.images(), folder, tmp_path / "whole", example.network)

    def interrupt(batch):
        calls.extend(batch)
        if len(calls) == 3:
            raise KeyboardInterrupt

    images = example.images()
    intercept(images, interrupt)
    with pytest.raises(KeyboardInterrupt):
        predict(images, folder, tmp_path / "out", example.network)
    assert predict(images, folder, tmp_path / "out", example.network, resumes=True) == keys
    assert calls == [*keys[:3], *keys[2:]]
    assert contents(tmp_path / "out", FILE) == contents(tmp_path / "whole", FILE)
    for path in SHARED:
        (tmp_path / "out" / path).unlink(missing_ok=True)
    predict(images, folder, tmp_path / "out", None, resumes=True)  # the predictions of all images are complete
    assert contents(tmp_path / "out", FILE) == contents(tmp_path / "whole", FILE)
    next(path for path in (tmp_path / "out").rglob("*") if path.suffix in (".gz", ".png", ".npy", ".txt")).write_bytes(
        b""
    )
    with pytest.raises(DataError, match="was changed since predict wrote it"):
        predict(images, folder, tmp_path / "out", None, resumes=True)


@pytest.mark.parametrize("folder", SCORED, indirect=True)
def test_pictures_are_drawn_of_the_first_images(folder, tmp_path):
    name, folder = folder
    example = EXAMPLES[name]
    for number in (0, 2):
        out = tmp_path / f"scores{number}"
        loops.evaluate(
            example.images(**example.scored), folder, out, example.network, progress=False, num_pictures=number
        )
        assert len([*out.glob("pictures/*.png")]) == number


@pytest.mark.parametrize("folder", EXAMPLES, indirect=True)
def test_existing_predictions_are_replaced_only_on_request(folder, tmp_path):
    name, folder = folder
    example, out = EXAMPLES[name], tmp_path / "out"
    loops.predict(example.images(), folder, out, example.network)
    before = contents(out)
    path = out / next(iter(before))
    path.write_bytes(b"someone's work")
    with pytest.raises(DataError, match=r": already exists\. Fix: name another output, or set overwrite") as error:
        loops.predict(example.images(), folder, out, example.network)
    assert error.value.settings == ("overwrite",)
    assert path.read_bytes() == b"someone's work"
    loops.predict(example.images(), folder, out, example.network, overwrite=True)
    assert contents(out) == before


@pytest.mark.parametrize("folder", EXAMPLES, indirect=True)
def test_partial_files_of_a_killed_process_are_removed(folder, tmp_path):
    name, folder = folder
    example, out = EXAMPLES[name], tmp_path / "out"
    loops.predict(example.images(), folder, out, example.network)
    before = contents(out)
    for path in [out / path for path in before]:
        ended_path(path).write_bytes(b"half")
    (out / "notes.txt").write_text("kept")
    loops.predict(example.images(), folder, out, example.network, overwrite=True)
    assert contents(out) == {**before, "notes.txt": b"kept"}


@pytest.mark.parametrize("folder", SCORED, indirect=True)
@pytest.mark.parametrize("existing", ["report.html", "metrics.csv", "picture"])
def test_an_evaluation_never_replaces_other_results(folder, tmp_path, existing):
    name, folder = folder
    example, out = EXAMPLES[name], tmp_path / "scores"
    if existing == "picture":
        loops.evaluate(
            example.images(**example.scored),
            folder,
            tmp_path / "first",
            example.network,
            progress=False,
            num_pictures=1,
        )
        (existing,) = (path.relative_to(tmp_path / "first") for path in (tmp_path / "first/pictures").glob("*"))
    (out / existing).parent.mkdir(parents=True)
    (out / existing).write_bytes(b"mine")
    with pytest.raises(DataError, match="the file already exists and belongs to other"):
        loops.evaluate(example.images(**example.scored), folder, out, example.network, progress=False)
    assert contents(out) == {str(existing): b"mine"}
