"""Tests the table of voxel sizes for files whose headers lack them."""

from pathlib import Path

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.reading.geometry import read_geometry
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.pairs.score import score_folders
from tests.data.reading import read_labels, read_segmentation, read_volume
from tests.kinds.volumes import evaluate, predict_cases
from tests.records import make_record


@pytest.fixture
def table(tmp_path):
    """A function that writes and reads a table."""

    def read(text, encoding="utf-8"):
        path = tmp_path / "spacing.csv"
        path.write_bytes(text.encode(encoding))
        return read_spacing_table(path)

    return read


def lose_geometry(folder, number, labels=None):
    """Writes a case without geometry, like the 3D-IRCADb cases of LiTS."""
    folder.mkdir(exist_ok=True)
    hu = np.full((6, 8, 4), -1000, np.int16)
    hu[1:5, 1:7] = 40
    labels = (hu > 0).astype(np.uint8) if labels is None else labels
    for name, array in (("volume", hu), ("segmentation", labels)):
        nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), folder / f"{name}-{number}.nii")
    return folder


def test_volume_labels_and_record_have_the_size_of_the_table(tmp_path, table, caplog):
    known = table("case,x,y,z\n28, 0.57,0.58,1.6\n7,9,9,9\n")
    (case,) = find_cases(lose_geometry(tmp_path / "cases", 28))
    volume = read_volume(case.volume, known)
    assert volume.geometry.spacing == read_geometry(case.volume, known).spacing == (0.57, 0.58, 1.6)
    assert read_segmentation(case.labels, known).geometry.spacing == (0.57, 0.58, 1.6)
    assert read_labels(case.labels, volume).sum() == 4 * 6 * 4
    assert (
        "volume-28.nii: its affine is the identity and does not define the axes; read as RAS, with voxels of "
        f"0.57 x 0.58 x 1.6 mm, from {tmp_path}/spacing.csv."
    ) in caplog.text
    record = make_record(case, Sampling((16, 16, 16), (0.57, 0.58, 0.8)), known)
    assert record.spacing == (0.57, 0.58, 1.6)
    assert np.count_nonzero(record.labels) == 4 * 6 * 4 * 2  # planes of 1.6 mm on voxels of 0.8 mm
    np.testing.assert_array_equal(record.affine, np.diag([0.57, 0.58, 1.6, 1]))


def test_without_a_row_the_pixdim_is_used_and_the_fix_is_named(tmp_path, table, caplog):
    (case,) = find_cases(lose_geometry(tmp_path / "cases", 29))
    assert read_volume(case.volume, table("case,x,y,z\n28,1,1,5\n")).geometry.spacing == (1, 1, 1)
    assert "1 x 1 x 1 mm, from its pixdim; spacing and all results in mm depend on this size." in caplog.text
    assert f"Fix: give the true size in a spacing_table ({tmp_path}/spacing.csv has no row '29')." in caplog.text
    read_volume(case.volume)
    assert "Fix: give the true size in a spacing_table." in caplog.text
    assert {record.settings for record in caplog.records} == {("spacing_table",)}


def test_a_size_in_the_header_takes_precedence(tmp_path, store, arrays, table, caplog):
    path = store(tmp_path / "volume-3.nii", arrays()[0], "SAL")  # 1.5, 2, 3 mm along x, y, z; stored z first
    known = table("case,x,y,z\n3,3,2,1.5\n")
    assert read_volume(path, known).geometry.spacing == (1.5, 2, 3)
    assert not caplog.records
    assert read_volume(path, table("case,x,y,z\n3,1,1,1\n")).geometry.spacing == (1.5, 2, 3)
    assert "volume-3.nii: the voxel size is 3,2,1.5 mm in the header, but 1,1,1 mm in " in caplog.text
    assert "spacing.csv; the header is used." in caplog.text


def test_spaces_around_words_are_ignored(tmp_path, table):
    assert table("case , x, y ,z \n 28 , 1, 2 ,3 \n").lookup(tmp_path / "volume-28.nii") == (1, 2, 3)


@pytest.mark.parametrize("name", ["liver_28", "liver_28.nii.gz", "liver_28_0000.nii.gz"])
def test_cases_of_other_names(tmp_path, table, name):
    known = table(f"case,x,y,z\n{name},1,2,3\n")
    for file in ("liver_28.nii.gz", "liver_28_0000.nii.gz"):
        assert known.lookup(tmp_path / "imagesTr" / file) == (1, 2, 3)
    assert known.lookup(tmp_path / "liver_29.nii.gz") is None
    assert known.lookup(tmp_path / "volume-28.nii.gz") is None


def test_test_cases_of_the_challenge_are_separate_cases(tmp_path, table):
    known = table("\ufeffcase,x,y,z\r\ntest-28,1,2,3\r\n28,4,5,6\r\n")  # as a spreadsheet writes it
    assert known.lookup(tmp_path / "test-volume-28.nii") == (1, 2, 3)
    assert known.lookup(tmp_path / "volume-28.nii") == known.lookup(tmp_path / "segmentation-28.nii.gz") == (4, 5, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case,x,y\n1,2,3\n", r"the first line is 'case,x,y', not 'case,x,y,z'"),
        ("", r"the first line is '', not 'case,x,y,z'"),
        ("case,x,y,z\n28,1,1\n", r"line 2: '28,1,1,' is not a case and three positive sizes in mm"),
        ("case,x,y,z\n28,1,1,0\n", r"line 2: '28,1,1,0' is not a case"),
        ("case,x,y,z\n28,1,1,1,1\n", r"line 2: '28,1,1,1,1' is not a case"),
        ("case,x,y,z\n28,1,nan,1\n", r"line 2: .* is not a case"),
        ("case,x,y,z\n28,1,one,1\n", r"line 2: .* is not a case"),
        ("case,x,y,z\n1,1,1,1\nvolume-1.nii,2,2,2\n", r"line 3: case '1' has a second row"),
        ("case,x,y,z\n\xff\xfe,1,1,1\n", r"not a text file in UTF-8"),
    ],
)
def test_malformed_tables_are_refused(table, text, message):
    with pytest.raises(DataError, match=rf"spacing\.csv: {message}.*Fix"):
        table(text, encoding="latin-1")


def test_tables_of_spreadsheets(tmp_path):
    path = tmp_path / "spacing.csv"
    path.write_bytes(b"\xef\xbb\xbfcase,x,y,z\r\nvolume-7.NII.GZ,1,1,2\r\nMu\xcc\x88ller,2,2,3\r\n")
    table = read_spacing_table(path)
    assert table.lookup(Path("segmentation-7.nii")) == (1.0, 1.0, 2.0)
    assert table.lookup(Path("M\u00fcller_0000.Nii.gz")) == (2.0, 2.0, 3.0)
    path.write_bytes("case,x,y,z\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"spacing\.csv: not a text file in UTF-8, but in UTF-16\. Fix: save"):
        read_spacing_table(path)


def test_a_table_that_is_missing(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: .*No such file"):
        read_spacing_table(tmp_path / "none.csv")


def test_predict_evaluate_and_score_use_the_table(tmp_path, table):
    """The surface distance of a lesion predicted one voxel too far along z is 1.6 mm, the size in the table."""
    labels = np.zeros((6, 8, 4), np.uint8)
    labels[1:5, 1:7] = 1
    labels[2, 2:5, 1] = 2
    cases = lose_geometry(tmp_path / "cases", 28, labels)
    known = table("case,x,y,z\n28,0.5,0.7,1.6\n")
    shifted = np.roll(labels, 1, axis=2)

    def network(image):
        return np.eye(3, dtype=np.float32)[shifted]

    sampling = Sampling((6, 8, 4))
    (score,) = evaluate(cases, tmp_path / "scores", sampling, network, progress=False, spacing_table=known)
    assert score.distances["lesion"].mssd == pytest.approx(1.6)
    found = tmp_path / "scores/predictions"
    (again,) = score_folders(cases, found, tmp_path / "again", workers=1, progress=False, scoring=Scoring(known=known))
    assert again == score
    box = Sampling((6, 8, 8), (0.5, 0.7, 0.8))  # voxels of half the height in the table
    (written,) = predict_cases(
        cases,
        tmp_path / "out",
        box,
        lambda image: np.repeat(network(image), 2, axis=2),
        progress=False,
        spacing_table=known,
    )
    np.testing.assert_array_equal(np.asarray(nibabel.load(written).dataobj), shifted)
    np.testing.assert_array_equal(nibabel.load(written).affine, np.eye(4))  # the affine of the input
