"""Made-up scenes of objects: what they show, and the folder that the command writes."""

import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO
from scipy import ndimage

from mtf_imaging.cli.main import main
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.generator import write_objects
from mtf_imaging.kinds.objects.reading.annotations import annotation_file, find_object_images, object_description
from mtf_imaging.kinds.objects.reading.images import read_object_image
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from mtf_imaging.kinds.objects.reading.outlines import has_holes, outline_polygons
from mtf_imaging.kinds.objects.scenes import CATEGORIES, CROWD, EMPTY, make_object_scene


@pytest.fixture(scope="module")
def scenes():
    return [make_object_scene(5, number) for number in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    write_objects(folder, 12, seed=1, progress=False)
    return folder


def test_scenes_depend_only_on_seed_and_number():
    np.testing.assert_array_equal(make_object_scene(1, 2).pixels, make_object_scene(1, 2).pixels)
    for other in ((1, 3), (2, 2)):
        assert not np.array_equal(make_object_scene(1, 2).pixels, make_object_scene(*other).pixels)


def test_scenes_have_objects_of_all_categories_and_sizes(scenes):
    shapes = [shape for scene in scenes for shape in scene.shapes]
    assert {len(scene.shapes) for scene in scenes} == {1, 2, 3, 4, 5, 6}
    assert min(Counter(shape.category for shape in shapes).values()) > 15
    assert not any(shape.is_crowd for shape in shapes)
    sides = [max(np.ptp(np.argwhere(shape.mask), axis=0)) + 1 for shape in shapes]
    assert min(sides) >= 10
    assert max(sides) <= 74
    assert np.quantile(sides, 0.25) < 28
    assert np.quantile(sides, 0.75) > 40
    for scene in scenes:
        height, width = scene.pixels.shape[:2]
        assert min(height, width) >= 112
        assert max(height, width) <= 160
        assert sum(shape.mask.astype(int) for shape in scene.shapes).max() == 1
        assert not any(has_holes(shape.mask) for shape in scene.shapes)
    touching = sum(
        bool((ndimage.binary_dilation(one.mask) & other.mask).any())
        for scene in scenes
        for number, one in enumerate(scene.shapes)
        for other in scene.shapes[:number]
    )
    assert touching > 15  # many shapes hide a part of another one


def test_crowds_and_empty_scenes():
    for number in range(5):
        group, *objects = make_object_scene(3, number, CROWD).shapes
        assert group.is_crowd
        assert 1 <= len(objects) <= 2
        assert not any(shape.is_crowd for shape in objects)
        assert ndimage.label(group.mask)[1] >= 4
        assert group.mask.sum() > 100
        assert make_object_scene(3, number, EMPTY).shapes == ()


def test_outlines_describe_masks_exactly():
    rng, count = np.random.default_rng(0), 0
    for _ in range(300):
        height, width = rng.integers(1, 25, 2)
        noise = ndimage.gaussian_filter(rng.standard_normal((height, width)), rng.choice([0, 0.6, 1.2]))
        mask = noise > rng.choice([0, 0.5])
        if has_holes(mask):
            parts, number = ndimage.label(mask)
            one = parts == rng.integers(1, number + 1)
            mask = ndimage.binary_fill_holes(one, np.ones((3, 3)))
        polygons = outline_polygons(mask)
        assert len(polygons) == ndimage.label(mask)[1]
        if mask.any():
            count += 1
            decoded = decode_mask(tuple(map(np.array, polygons)), *mask.shape)
            np.testing.assert_array_equal(decoded, mask)
    assert count > 250


def test_holes():
    ring = np.ones((5, 5), bool)
    ring[2, 2] = False
    assert has_holes(ring)
    ring[1, 1] = False
    assert has_holes(ring)  # its background touches at a corner only, which outlines cross, but is enclosed
    ring[0, 0] = False
    assert not has_holes(ring)
    np.testing.assert_array_equal(decode_mask(tuple(map(np.array, outline_polygons(ring))), 5, 5), ring)


def test_pycocotools_reads_the_annotations(folder):
    number = 0
    for split, count in (("train", 9), ("val", 3)):
        coco = COCO(annotation_file(folder, split))
        images = find_object_images(folder, split)
        assert len(images) == len(coco.imgs) == count
        assert sorted(coco.anns) == sorted(one.annotation_id for image in images for one in image.objects)
        assert min(coco.anns) > 0
        kinds = [{one.is_crowd for one in image.objects} for image in images]
        assert True in kinds[1]
        assert kinds[2] == set()
        for image in images:
            scene = read_object_image(image)
            assert scene.shape == (image.height, image.width, 3)
            for one in image.objects:
                fields, mask = coco.anns[one.annotation_id], decode_mask(one.segmentation, image.height, image.width)
                np.testing.assert_array_equal(coco.annToMask(fields), mask)
                rows, columns = np.nonzero(mask)
                box = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
                assert (one.box, one.area) == (tuple(map(float, box)), mask.sum())
                assert fields["category_id"] == CATEGORIES[one.category][0]
                assert fields["iscrowd"] == one.is_crowd == isinstance(fields["segmentation"], dict)
                number += 1
    assert number > 20


def test_a_folder_of_objects(folder, tmp_path):
    assert object_description(folder).categories == CATEGORIES
    assert [image.key for image in find_object_images(folder, "val")] == [f"objects_{n:04d}" for n in (3, 7, 11)]
    train, held_out = write_objects(tmp_path, 5, seed=1, progress=False)
    assert (len(train), held_out) == (4, ["objects_0003"])
    for path in tmp_path.glob("*/*.jpg"):  # an image does not depend on the number of images
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes()
    pixels = make_object_scene(1, 0).pixels
    assert abs(np.asarray(Image.open(tmp_path / "train/objects_0000.jpg")).astype(int) - pixels).mean() < 12
    data = Objects(size=(64, 64), masks=True, mask_size=14)
    batch = next(data.batches(folder, batch_size=9, sizes=(64, 64), seed=0, start_step=0))
    objects = sum(not one.is_crowd for image in data.images(folder) for one in image.objects)
    assert (batch["classes"].numpy() >= 0).sum() == objects
    shares = batch["masks"].numpy()[batch["classes"].numpy() >= 0].mean((1, 2))
    assert shares.min() > 0.15  # stars and hidden triangles
    assert shares.max() < 1


def test_writing_resumes_and_never_overwrites(tmp_path):
    size = (40, 50)
    write_objects(tmp_path, 4, seed=1, size=size, progress=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert len(before) == 4 + 2
    (tmp_path / "annotations/instances_val.json").unlink()
    (tmp_path / "train/objects_0001.jpg").unlink()
    write_objects(tmp_path, 4, seed=1, size=size, progress=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    with pytest.raises(
        DataError, match=r"objects_0003\.jpg: the contents of this file differ from the synthetic data of seed 2"
    ):
        write_objects(tmp_path, 4, seed=2, size=size, progress=False)
    with pytest.raises(
        DataError, match=r"contains 2 file\(s\) of images other than objects_0000\.\.objects_0001, such as"
    ):
        write_objects(tmp_path, 2, seed=1, size=size, progress=False)
    path = tmp_path / "annotations/instances_train.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"info": {}}))
    with pytest.raises(DataError, match=r"instances_train\.json: the contents of this file differ"):
        write_objects(tmp_path, 4, seed=1, size=size, progress=False)


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(DataError, match="num_images 0: at least 1 image is needed"):
        write_objects(tmp_path, 0, seed=1)
    with pytest.raises(DataError, match=r"size \(160, 112\): must be two ascending integers"):
        write_objects(tmp_path, 1, seed=1, size=(160, 112))


def test_the_command_writes_objects(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["phantom", "--kind", "objects", "--output_dir", "objects", "--num_cases", "4", "--seed", "4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "objects: 3 photos in train and 1 in val",
        "Next: mtf-imaging train --data_dir objects --eval_dir objects --model_dir run --gin_file retinanet_objects",
    ]
    assert [image.key for image in find_object_images("objects", "val")] == ["objects_0003"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--format=lits", "--format=lits: --kind=objects always writes the layout of COCO. Fix: leave out --format."),
        ("--num_cases=0", "--num_cases must be an int of at least 1, not 0."),
    ],
)
def test_flags_that_do_not_fit_objects(tmp_path, capsys, argument, message):
    assert main(["phantom", "--kind", "objects", "--output_dir", str(tmp_path / "objects"), argument]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "objects").exists()
