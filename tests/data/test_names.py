"""Names of files: endings, forms of Unicode, names that cannot be used, and formats that cannot be read."""

import json
import os
import unicodedata

import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.description.dataset_json import FILE
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import NIFTI, OME_ZARR, PNG, VOLUME_FORMATS
from mtf_imaging.data.pixels.photo_files import PHOTOS
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.pairs import Pair, find_pairs
from mtf_imaging.evaluation.pairs.volumes import add_volumes
from mtf_imaging.files.partial import replaced_path
from mtf_imaging.kinds.objects.reading.annotations import find_object_images, splits
from mtf_imaging.kinds.photos.reading.folders import find_photos
from mtf_imaging.kinds.photos.reading.folders import splits as photo_splits
from tests.data.test_cases import touch
from tests.kinds.coco_folder import make_fields, write_annotations, write_folder

NFC = unicodedata.normalize("NFC", "Mu\u0308ller")
NFD = unicodedata.normalize("NFD", NFC)
CT = {"modality": {"0": "CT"}, "labels": {"0": "background", "1": "liver"}}


def describe(folder, **more):
    (folder / FILE).write_text(json.dumps({**CT, **more}))


@pytest.mark.parametrize("ending", [".NII.GZ", ".NII", ".Nii.gz", ".nii.GZ"])
def test_endings_of_any_case_are_read(tmp_path, ending):
    touch(tmp_path, "volume-1.nii.gz", "segmentation-1.nii", f"volume-2{ending}", f"segmentation-2{ending}")
    first, second = find_cases(tmp_path)
    assert second.volume == tmp_path / f"volume-2{ending}"
    assert second.labels == tmp_path / f"segmentation-2{ending}"
    assert second.prediction_name == "segmentation-2.nii.gz"
    (single,) = find_cases(tmp_path / f"volume-2{ending}", need_labels=False)
    assert (single.key, single.prediction_name) == ("2", "segmentation-2.nii.gz")
    assert first.key == "1"


@pytest.mark.parametrize(
    ("image_format", "name"), [(OME_ZARR, "a.OME.Zarr"), (PNG, "a.Png"), (PHOTOS, "a.Jpg"), (VOLUME_FORMATS, "a.NII")]
)
def test_every_format_ignores_the_case_of_endings(tmp_path, image_format, name):
    (tmp_path / name).mkdir() if image_format is OME_ZARR else touch(tmp_path, name)
    assert image_files(tmp_path, image_format) == [tmp_path / name]
    assert image_format.stem(tmp_path / name) == "a"


def test_an_image_is_listed_once_if_a_process_was_killed_while_it_replaced_the_image(tmp_path):
    for path in (tmp_path / "a.ome.zarr", replaced_path(tmp_path / "a.ome.zarr")):
        path.mkdir(parents=True)
    assert image_files(tmp_path, OME_ZARR) == [tmp_path / "a.ome.zarr"]


def test_an_ending_in_upper_case_can_be_described(tmp_path):
    describe(tmp_path, file_ending=".PNG")
    touch(tmp_path, "imagesTr/a_0000.PNG", "labelsTr/a.png")
    (case,) = find_cases(tmp_path)
    assert case.prediction_name == "a.png"


def test_masks_and_volumes_are_paired_over_endings_and_forms(tmp_path):
    for folder, name in (("ref", NFD), ("pred", NFC), ("ct", NFD)):
        touch(tmp_path, f"{folder}/{name}_1.NII.GZ" if folder == "ref" else f"{folder}/{name}_1.nii.gz")
    touch(tmp_path, "ref/b_2.nii", "pred/b_2.nii.gz", "ct/b_2.nii.gz")
    pairs = add_volumes(find_pairs(tmp_path / "ref", tmp_path / "pred"), tmp_path / "ct")
    assert [(pair.key, pair.prediction.name, pair.volume.name) for pair in pairs] == [
        (f"{NFC}_1", f"{NFC}_1.nii.gz", f"{NFD}_1.nii.gz"),
        ("b_2", "b_2.nii.gz", "b_2.nii.gz"),
    ]


def test_volumes_beside_references_are_found_over_endings_and_forms(tmp_path):
    touch(tmp_path, f"imagesTr/{NFD}_0000.NII.GZ", f"labelsTr/{NFC}.nii.gz", "volume-3.NII", "segmentation-3.nii")
    references = tmp_path / f"labelsTr/{NFC}.nii.gz", tmp_path / "segmentation-3.nii"
    pairs = add_volumes([Pair("a", path, path) for path in references])
    assert [pair.volume for pair in pairs] == [tmp_path / f"imagesTr/{NFD}_0000.NII.GZ", tmp_path / "volume-3.NII"]


def test_forms_of_unicode_are_one_case(tmp_path):
    touch(tmp_path, f"imagesTr/{NFD}_01.nii.gz", f"labelsTr/{NFC}_01.nii.gz")
    (case,) = find_cases(tmp_path)
    assert (case.key, case.prediction_name) == (f"{NFC}_01", f"{NFC}_01.nii.gz")
    assert case.volume.name == f"{NFD}_01.nii.gz"
    touch(tmp_path, f"imagesTr/{NFC}_01.nii.gz")
    with pytest.raises(
        DataError, match=rf"both belong to case '{NFC}_01' \(their names differ only in Unicode normalization\)"
    ):
        find_cases(tmp_path)


def test_names_that_differ_in_case_are_named(tmp_path, caplog):
    touch(tmp_path, "imagesTr/A.nii", "imagesTr/a.nii", "labelsTr/A.nii", "labelsTr/a.nii")
    assert {case.key for case in find_cases(tmp_path)} == {"A", "a"}
    assert "the names of cases 'A' and 'a' differ only in upper and lower case" in caplog.text
    touch(tmp_path, "imagesTr/B.nii", "labelsTr/b.nii")
    with pytest.raises(DataError, match=r"the names B\.nii and b\.nii differ in upper and lower case\. Fix"):
        find_cases(tmp_path)


def bad_name(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    open(os.path.join(os.fsencode(folder), name), "wb").close()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"volume-1\xfc.nii.gz", r"volume-1\xfc.nii.gz"),
        (b"a\nb.nii", r"a\nb.nii"),
        (b"a\x1b[31m.nii", r"a\x1b[31m.nii"),
    ],
)
def test_names_that_are_not_text_are_refused(tmp_path, name, shown):
    bad_name(tmp_path, name)
    for function in (
        lambda: find_cases(tmp_path),
        lambda: find_cases(tmp_path, need_labels=False),
        lambda: find_cases(tmp_path / os.fsdecode(name), need_labels=False),
        lambda: find_pairs(tmp_path, tmp_path),
    ):
        with pytest.raises(DataError) as caught:
            function()
        assert str(caught.value) == (
            f"{tmp_path}: 1 name(s) are not text in UTF-8 without control characters: {shown}. Fix: rename these "
            "files; names in other encodings often come from archives of other systems."
        )


def test_photos_and_objects_refuse_names_that_are_not_text(tmp_path):
    bad_name(tmp_path / "photos", b"\xfc.jpg")
    with pytest.raises(DataError, match=r"photos: 1 name\(s\) are not text .*: \\xfc\.jpg\. Fix"):
        find_photos(tmp_path / "photos", need_labels=False)
    fields = make_fields([(8, 8)], [])
    write_folder(tmp_path / "objects", fields)
    fields["images"][0]["file_name"] = "a\nb.png"
    write_annotations(tmp_path / "objects", "train", fields)
    with pytest.raises(DataError, match=r"images\[0\].* has the file_name .* not the name of an image file"):
        find_object_images(tmp_path / "objects", "train")


def test_photos_are_listed_over_endings_and_forms(tmp_path):
    touch(tmp_path, f"images/{NFD}.JPG", f"labels/{NFC}.PNG")
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits/train.TXT").write_bytes(b"\xef\xbb\xbf" + f"{NFC}\r\n".encode())
    assert photo_splits(tmp_path) == ("train",)
    (photo,) = find_photos(tmp_path, "train")
    assert (photo.key, photo.image.name, photo.labels.name) == (NFC, f"{NFD}.JPG", f"{NFC}.PNG")


def test_cityscapes_are_listed_over_endings(tmp_path):
    touch(tmp_path, "leftImg8bit/val/ulm/a_leftImg8bit.PNG", "gtFine/val/ulm/a_gtFine_labelIds.PNG")
    (photo,) = find_photos(tmp_path, "val")
    assert photo.labels == tmp_path / "gtFine/val/ulm/a_gtFine_labelIds.PNG"


def test_objects_are_listed_over_endings_and_forms(tmp_path):
    fields = make_fields([(8, 8)], [])
    write_folder(tmp_path, fields)
    name = fields["images"][0]["file_name"]
    found = next(tmp_path.rglob(name))
    found.rename(found.with_name(f"{NFD}.png"))
    fields["images"][0]["file_name"] = f"{NFC}.png"
    path = write_annotations(tmp_path, "train", fields)
    path.rename(path.with_suffix(".JSON"))
    assert splits(tmp_path) == ("train",)
    images = find_object_images(tmp_path, "train")
    assert images[0].image.name == f"{NFD}.png"
    assert images[0].key == NFC


@pytest.mark.parametrize(
    ("ending", "fix"),
    [
        (".MNC", "convert MINC to NIfTI, for instance with nibabel"),
        (".hdr", "convert Analyze or a pair of NIfTI files to NIfTI, for instance with nibabel"),
        (".nii.zst", "convert NIfTI in Zstandard to NIfTI"),
    ],
)
def test_volumes_in_other_formats_are_named_with_a_fix(tmp_path, caplog, ending, fix):
    touch(tmp_path, f"imagesTr/a{ending}", f"labelsTr/a{ending}")
    with pytest.raises(DataError, match=rf"but 2 file\(s\) in other formats \(a{ending}, a{ending}\)\. Fix: {fix}"):
        find_cases(tmp_path)
    with pytest.raises(DataError, match=rf"a{ending}: not a \.nii.*file\. Fix: {fix}"):
        find_cases(tmp_path / f"imagesTr/a{ending}", need_labels=False)
    with pytest.raises(DataError, match=rf"holds no .*, but 1 file\(s\) in other formats.*Fix: {fix}"):
        find_pairs(tmp_path / "labelsTr", tmp_path / "labelsTr")
    describe(tmp_path, file_ending=ending)
    with pytest.raises(DataError, match=rf"file_ending is '{ending}'.*cannot read\. Fix: .*; {fix}"):
        find_cases(tmp_path)
    (tmp_path / FILE).unlink()
    caplog.clear()
    touch(tmp_path, "imagesTr/b.nii", "labelsTr/b.nii")
    assert [case.key for case in find_cases(tmp_path)] == ["b"]
    assert f"skipped 2 file(s) in other formats (a{ending}, a{ending}). To use them, convert" in caplog.text


def test_photos_in_other_formats_are_named(tmp_path, caplog):
    touch(tmp_path, "a.jpg", "b.webp")
    assert [photo.key for photo in find_photos(tmp_path, need_labels=False)] == ["a"]
    assert "skipped 1 file(s) in other formats (b.webp). To use them, convert WEBP to PNG" in caplog.text


def test_decathlon_names_that_end_like_channels(tmp_path):
    describe(tmp_path, numTraining=2)
    touch(tmp_path, *(f"{folder}/word_000{n}.nii.gz" for folder in ("imagesTr", "labelsTr") for n in range(2)))
    cases = find_cases(tmp_path)
    assert [case.key for case in cases] == ["word_0000", "word_0001"]
    assert cases[1].prediction_name == "word_0001.nii.gz"
    assert [case.key for case in find_cases(tmp_path / "imagesTr", need_labels=False)] == ["word_0000", "word_0001"]
    (case,) = find_cases(tmp_path / "imagesTr/word_0001.nii.gz", need_labels=False)
    assert (case.key, case.prediction_name) == ("word_0001", "word_0001.nii.gz")


def test_the_list_of_dataset_json_decides_without_masks(tmp_path):
    touch(tmp_path, "imagesTs/word_0000.nii.gz", "imagesTs/word_0001.nii.gz")
    describe(tmp_path, test=["./imagesTs/word_0001.nii.gz"])
    assert [case.key for case in find_cases(tmp_path, need_labels=False)] == ["word_0000", "word_0001"]
    describe(tmp_path, training=[{"image": "./imagesTs/word.nii.gz", "label": "./labelsTs/word.nii.gz"}])
    with pytest.raises(DataError, match=r"case 'word' has word_0001\.nii\.gz, but dataset\.json has 1 channel"):
        find_cases(tmp_path, need_labels=False)  # as in nnU-Net v1, whose list has no numbers of channels


def test_the_names_of_nnunet_keep_their_meaning(tmp_path):
    describe(tmp_path, training=[{"image": "./imagesTr/a_0000.nii.gz", "label": "./labelsTr/a_0000.nii.gz"}])
    touch(tmp_path, "imagesTr/a_0000_0000.nii.gz", "labelsTr/a_0000.nii.gz")
    touch(tmp_path, "imagesTr/b_0000.nii.gz", "labelsTr/b.nii.gz")
    assert [case.key for case in find_cases(tmp_path)] == ["a_0000", "b"]


def test_an_image_with_and_without_the_number_of_a_channel(tmp_path):
    touch(tmp_path, "imagesTr/a.nii.gz", "imagesTr/a_0000.nii.gz", "labelsTr/a.nii.gz")
    with pytest.raises(DataError, match=r"a_0000\.nii\.gz and .*a\.nii\.gz: both are images of case 'a'"):
        find_cases(tmp_path)


def test_hidden_files_of_systems_are_no_cases(tmp_path):
    touch(tmp_path, "imagesTr/a.nii.gz", "labelsTr/a.nii.gz")
    touch(tmp_path, "imagesTr/._a.nii.gz", "imagesTr/.DS_Store", ".DS_Store", "labelsTr/._a.nii.gz", "Thumbs.db")
    assert [case.key for case in find_cases(tmp_path)] == ["a"]


def test_one_case_under_two_endings(tmp_path):
    touch(tmp_path, "imagesTr/a.nii", "imagesTr/a.nii.gz", "labelsTr/a.nii.gz")
    with pytest.raises(DataError, match=r"a\.nii\.gz and .*a\.nii: both belong to case 'a'\. Fix: rename one"):
        find_cases(tmp_path)
    touch(tmp_path, "sub/imagesTr/b.nii", "sub/labelsTr/b.nii", "other/imagesTr/b.nii", "other/labelsTr/b.nii")
    (tmp_path / "imagesTr/a.nii").unlink()
    with pytest.raises(DataError, match=r"both belong to case 'b'"):
        find_cases(tmp_path)


def test_numbers_that_python_does_not_convert_are_sorted(tmp_path):
    names = [f"x{digits}" for digits in ("10", "2", "7²", "٣")]
    touch(tmp_path, *(f"{folder}/{name}.nii" for name in names for folder in ("imagesTr", "labelsTr")))
    assert {case.key for case in find_cases(tmp_path)} == {*names}


def test_a_loop_of_links(tmp_path):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [case.key for case in find_cases(tmp_path)] == ["1"]
    (tmp_path / "volume-2.nii").symlink_to(tmp_path / "volume-2.nii")
    with pytest.raises(DataError, match=r"volume-2\.nii"):
        find_cases(tmp_path)


def test_a_named_pipe_is_no_image(tmp_path):
    touch(tmp_path, "volume-1.nii", "segmentation-1.nii")
    os.mkfifo(tmp_path / "volume-2.nii")
    os.mkfifo(tmp_path / "segmentation-2.nii")
    with pytest.raises(DataError, match=r"-2\.nii: is a named pipe, not a file"):
        find_cases(tmp_path)
    assert NIFTI.stem(tmp_path / "volume-2.nii") == "volume-2"
