"""Names from data never lead out of the output folder."""

import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.files.contained import NameTooLong, contained
from mtf_imaging.files.output_folder import writing_to
from tests.leftovers import ended_path


@pytest.mark.parametrize(
    "name", ["1.png", "city/1.png", "a..b.png", "..hidden/1.png", "[1].png", "a b/ä.png", "./1.png", "C:1.png", ".png"]
)
def test_names_below_the_folder_are_kept(tmp_path, name):
    assert contained(tmp_path, "pictures", name) == tmp_path / "pictures" / name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("../1.png", r"contains '\.\.'"),
        ("..", r"contains '\.\.'"),
        ("a/../../1.png", r"contains '\.\.'"),
        ("a/../1.png", r"contains '\.\.'"),
        (r"..\1.png", r"contains '\.\.'"),
        (r"a\../1.png", r"contains '\.\.'"),
        ("/etc/1.png", "absolute path"),
        ("//1.png", "absolute path"),
        (r"\\host\share\1.png", "absolute path"),
        (r"C:\1.png", "absolute path"),
        ("c:/1.png", "absolute path"),
        ("a\0.png", "null character"),
        ("", "is empty"),
        (".", "is empty"),
        ("./", "is empty"),
    ],
)
def test_other_names_are_refused_with_their_fault(tmp_path, name, fault):
    with pytest.raises(DataError, match=f"{fault}, so its file would not lie in the output folder .*Fix: rename"):
        contained(tmp_path, "pictures", name)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "pictures").symlink_to(tmp_path / "photos")
    for name in ("1.png", "city/1.png"):
        with pytest.raises(DataError, match=r"a symbolic link leads out of the output folder, to .*photos.*Fix: rem"):
            contained(out, "pictures", name)


def test_a_link_out_of_an_output_folder_is_refused_before_the_folder_is_cleaned(tmp_path):
    (tmp_path / "photos").mkdir()
    left = ended_path(tmp_path / "photos" / "1.png")
    left.touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pictures").symlink_to(tmp_path / "photos")
    with pytest.raises(DataError, match=r"a symbolic link leads out of the output folder"):
        writing_to(tmp_path / "out", "predictions", "pictures").__enter__()
    assert left.exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["pictures"]


def test_links_to_the_folder_and_within_it_are_followed(tmp_path):
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "pictures").symlink_to(tmp_path / "real" / "a")
    (tmp_path / "out").symlink_to(tmp_path / "real")
    assert contained(tmp_path / "out", "pictures", "1.png") == tmp_path / "out" / "pictures" / "1.png"


def test_a_name_that_file_systems_cannot_store_is_refused(tmp_path):
    assert contained(tmp_path, "ä" * 125 + ".png").name.endswith(".png")  # 254 bytes
    with pytest.raises(NameTooLong, match=r"has 256 bytes, but file systems store at most 255\. Fix: give .*shorter"):
        contained(tmp_path, "ä" * 126 + ".png")
