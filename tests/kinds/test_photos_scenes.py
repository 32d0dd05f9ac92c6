"""Made-up scenes: what they show, and the folder that the command writes."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from mtf_imaging.cli.main import main
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.photos.reading.folders import find_photos, photo_description
from mtf_imaging.kinds.photos.reading.label_images import read_labeled_photo
from mtf_imaging.kinds.photos.scenes import SCENES, make_scene, write_scenes

NUM_CLASSES = len(SCENES.classes)


@pytest.fixture(scope="module")
def scenes():
    return [make_scene(5, number) for number in range(24)]


def test_scenes_depend_only_on_seed_and_number():
    for first, second in zip(make_scene(1, 2), make_scene(1, 2)):
        np.testing.assert_array_equal(first, second)
    assert not any(np.array_equal(make_scene(1, 2)[0], make_scene(*other)[0]) for other in ((1, 3), (2, 2)))


def test_scenes_have_all_classes_and_many_sizes(scenes):
    sizes = np.array([labels.shape for _, labels in scenes])
    assert all(pixels.shape == (*labels.shape, 3) for pixels, labels in scenes)
    assert sizes.min() >= 112
    assert sizes.max() <= 160
    assert len({*map(tuple, sizes)}) > 20
    counts = sum(np.bincount(labels.ravel(), minlength=256) for _, labels in scenes)
    assert set(np.flatnonzero(counts)) == {*range(NUM_CLASSES), 255}
    assert (counts[1:NUM_CLASSES] / counts.sum() > 0.03).all()
    assert 0.03 < counts[255] / counts.sum() < 0.15


def test_boundaries_separate_all_regions(scenes):
    for _, labels in scenes:
        for axis in (0, 1):
            first, second = (np.take(labels, range(start, labels.shape[axis] + start - 1), axis) for start in (0, 1))
            touching = (first != second) & (first != 255) & (second != 255)
            assert not touching.any()
        widths = ndimage.distance_transform_cdt(np.pad(labels == 255, 1), "chessboard")
        assert 1 <= widths.max() <= 4  # 2 pixels, and more where boundaries meet


def test_colors_do_not_tell_the_class(scenes):
    """The mean color of a class varies more between photos than it differs from that of another class."""
    means = np.full((len(scenes), NUM_CLASSES, 3), np.nan)
    for number, (pixels, labels) in enumerate(scenes):
        for label in np.unique(labels[labels != 255]):
            means[number, label] = pixels[labels == label].mean(0)
    spread = np.nanstd(means, 0)
    assert spread.min() > 20
    centers = np.nanmean(means, 0)
    assert (abs(centers[:, None] - centers) < 1.5 * spread.mean()).all()


def test_a_folder_of_scenes(tmp_path):
    train, held_out = write_scenes(tmp_path, 9, seed=1, progress=False)
    assert held_out == ["scene_0003", "scene_0007"]
    assert [photo.key for photo in find_photos(tmp_path, "train")] == train
    assert [photo.key for photo in find_photos(tmp_path, "val")] == held_out
    assert len(train) == 7
    assert photo_description(tmp_path) == SCENES
    for number, photo in enumerate(find_photos(tmp_path)):
        pixels, labels = read_labeled_photo(photo, SCENES)
        made, made_labels = make_scene(1, number)
        np.testing.assert_array_equal(labels, made_labels)
        encoded = io.BytesIO()
        Image.fromarray(made).save(encoded, "JPEG", quality=90)
        np.testing.assert_array_equal(pixels, np.asarray(Image.open(encoded)))
        assert abs(pixels.astype(int) - made).mean() < 12


def test_writing_resumes_and_never_overwrites(tmp_path):
    write_scenes(tmp_path, 4, seed=1, size=(20, 30), progress=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert len(before) == 4 + 4 + 3
    (tmp_path / "SegmentationClass/scene_0002.png").unlink()
    (tmp_path / "JPEGImages/scene_0001.jpg").unlink()
    write_scenes(tmp_path, 4, seed=1, size=(20, 30), progress=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    with pytest.raises(
        DataError, match=r"scene_0000\.png: the contents of this file differ from the synthetic data of seed 2"
    ):
        write_scenes(tmp_path, 4, seed=2, size=(20, 30), progress=False)
    with pytest.raises(DataError, match=r"contains 2 file\(s\) of photos other than scene_0000\.\.scene_0002"):
        write_scenes(tmp_path, 3, seed=1, size=(20, 30), progress=False)
    (tmp_path / "classes.json").write_text("{}")
    with pytest.raises(DataError, match=r"classes\.json: the contents of this file differ"):
        write_scenes(tmp_path, 4, seed=1, size=(20, 30), progress=False)


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(DataError, match="num_photos 0: at least 1 photo is needed"):
        write_scenes(tmp_path, 0, seed=1)
    with pytest.raises(DataError, match=r"size \(160, 112\): must be two ascending integers"):
        write_scenes(tmp_path, 1, seed=1, size=(160, 112))


def test_the_command_writes_scenes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["phantom", "--kind", "scenes", "--output_dir", "scenes", "--num_cases", "5", "--seed", "4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "scenes: 4 photos in train.txt and 1 in val.txt",
        "Next: mtf-imaging train --data_dir scenes --eval_dir scenes --model_dir run --gin_file deeplab_scenes",
    ]
    np.testing.assert_array_equal(read_labeled_photo(find_photos("scenes", "val")[0], SCENES)[1], make_scene(4, 3)[1])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--format=lits", "--format=lits: --kind=scenes always writes the folders of PASCAL VOC. Fix: leave out"),
        ("--num_cases=0", "--num_cases must be an int of at least 1, not 0."),
    ],
)
def test_flags_that_do_not_fit_scenes(tmp_path, capsys, argument, message):
    assert main(["phantom", "--kind", "scenes", "--output_dir", str(tmp_path / "scenes"), argument]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "scenes").exists()
