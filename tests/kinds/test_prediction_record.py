"""The record of a prediction tells complete files from others, also after a crash."""

import json
import os
from pathlib import Path

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.record import read_record
from mtf_imaging.kinds.prediction_record import FILE, ImageFiles, PredictionFiles, PredictionRecord

MADE_BY = {"checkpoint": "ckpt-2"}


@pytest.fixture
def files(tmp_path):
    """Three images with two outputs each."""
    (tmp_path / "out").mkdir()
    images = []
    for number in range(3):
        (tmp_path / f"{number}.png").write_text(f"image {number}")
        outputs = tuple(tmp_path / "out" / f"{name}-{number}.png" for name in ("labels", "overlay"))
        images.append(ImageFiles((tmp_path / f"{number}.png",), outputs))
    return PredictionFiles((*images,), (tmp_path / "out/all.json",), tmp_path / "out")


def write(files, record, numbers=(), stop_after=None):
    with record.open():
        for number in numbers:
            with record.writing(number, rows := []):
                for path in files.images[number].outputs:
                    path.write_text(f"prediction {number}")
                rows.append({"score": number})
                if number == stop_after:
                    raise KeyboardInterrupt
        with record.writing_shared():
            files.shared[0].write_text("[]")


def check(files, **options):
    record = PredictionRecord(files, MADE_BY, **options)
    return record, record.check()


def interrupted(files):
    record, unfinished = check(files)
    assert unfinished == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt):
        write(files, record, (0, 1), stop_after=1)


def test_complete_images_are_kept_with_their_results(files):
    interrupted(files)
    record, unfinished = check(files)
    assert unfinished == [1, 2]
    assert record.result(0) == [{"score": 0}]
    write(files, record, unfinished)
    assert check(files)[1] == []


@pytest.mark.parametrize("output", [0, 1])
def test_a_missing_file_of_an_image_is_made_again(files, output):
    write(files, check(files)[0], (0, 1, 2))
    files.images[1].outputs[output].unlink()
    files.shared[0].unlink()
    assert check(files)[1] == [1]


def test_a_crash_in_the_middle_of_a_line_is_tolerated(files):
    interrupted(files)
    path = files.folder / FILE
    path.write_bytes(path.read_bytes() + b'{"file": "labels-2.p')
    record, unfinished = check(files)
    assert unfinished == [1, 2]
    write(files, record, unfinished)
    assert check(files)[1] == []


@pytest.mark.parametrize("content", ["", "{", "[]\n", "1\n{}\n", '{"made_by": 1}\n{}\n', "[" * 100_000, "\x00\n\n"])
def test_with_a_damaged_record_no_file_is_replaced(files, content):
    write(files, check(files)[0], (0,))
    (files.folder / FILE).write_text(content)
    with pytest.raises(DataError, match=r"already exists, and predict did not write it\. Fix: name another output, or"):
        check(files)
    assert check(files, overwrite=True)[1] == [0, 1, 2]


def test_a_damaged_line_that_is_not_the_last_one_damages_the_record(files):
    interrupted(files)
    path = files.folder / FILE
    *lines, last = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "{", last]))
    with pytest.raises(DataError, match="already exists, and predict did not write it"):
        check(files)


def test_a_file_is_named_before_it_is_written(files):
    interrupted(files)
    lines = [json.loads(line) for line in (files.folder / FILE).read_text().splitlines()]
    assert lines[0] == {"made_by": MADE_BY}
    assert [line["file"] for line in lines[1:] if "sha256" not in line] == [
        *("labels-0.png", "overlay-0.png"),
        *("labels-1.png", "overlay-1.png"),
    ]


def test_an_interrupted_replacement_is_completed_without_asking_again(files):
    write(files, check(files)[0], (0, 1, 2))
    (files.folder / FILE).unlink()
    record, unfinished = check(files, overwrite=True)
    assert unfinished == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt):
        write(files, record, (0,), stop_after=0)
    assert check(files)[1] == [0, 1, 2]


def test_other_settings_are_named(files):
    write(files, check(files)[0], (0,))
    other = PredictionRecord(files, {"checkpoint": "ckpt-3", "dtype": "float32"})
    with pytest.raises(DataError, match=r"checkpoint was ckpt-2, and is ckpt-3; dtype differ, too\. Fix: "):
        other.check()
    for path in (*files.images[0].outputs, *files.shared):
        path.unlink()
    assert other.check() == [0, 1, 2]  # nothing is left of the other predictions


def test_each_file_has_the_provenance_of_the_call_that_wrote_it(files):
    def call(number, seed, made_by=MADE_BY, **options):
        own = PredictionRecord(files, made_by, provenance=Provenance(rules={"seed": seed}), **options)
        own.check()
        write(files, own, (number,))

    def seeds():
        record = read_record(files.folder)
        names = [name for name in record.entries if name.startswith("labels")]
        return {name: record.provenance_of(name, record.entries[name]["sha256"])["rules"]["seed"] for name in names}

    call(0, seed=1)
    call(1, seed=2)
    call(2, seed=1)
    assert seeds() == {"labels-0.png": 1, "labels-1.png": 2, "labels-2.png": 1}
    assert len(read_record(files.folder).provenance) == 2
    for image in files.images[1:]:
        for path in image.outputs:
            path.unlink()
    call(0, seed=3, made_by={"checkpoint": "ckpt-3"}, overwrite=True)
    assert seeds() == {"labels-0.png": 3}
    assert len(read_record(files.folder).provenance) == 1, "nothing is left of the other predictions"


def test_an_image_counts_by_its_content(files):
    write(files, check(files)[0], (0, 1, 2))
    (path,) = files.images[1].inputs
    path.write_text("image 1")  # at another time
    assert check(files)[1] == []
    stat = path.stat()
    path.write_text("image 9")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(DataError, match=r"was predicted from another image than .*1\.png, or this image was changed"):
        check(files)


def test_a_single_file_has_no_record(files):
    record, unfinished = check(files._replace(folder=None))
    assert unfinished == [0, 1, 2]
    write(files, record, (0,))
    assert not (Path(files.shared[0]).parent / FILE).exists()


def test_the_digest_of_a_folder_depends_on_all_files_and_their_names(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("c")
    one = digest(tmp_path / "a")
    (tmp_path / "a/b/c").rename(tmp_path / "a/b/d")
    two = digest(tmp_path / "a")
    (tmp_path / "a/b/d").write_text("e")
    assert len({one, two, digest(tmp_path / "a")}) == 3
    assert digest(tmp_path / "none") is None
