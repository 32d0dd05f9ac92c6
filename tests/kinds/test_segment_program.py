"""The program of an exported network reads, repairs and refuses files as predict does, without this package."""

import ast
import json
import logging
import subprocess
import sys
from types import ModuleType

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.cleanup.cleanup import as_cleanup
from mtf_imaging.evaluation.export.program import program_text
from tests.data.reading import read_image, read_volume

segment = ModuleType("segment")  # the program of an exported network
segment.__file__ = "segment.py"
exec(compile(program_text(), "segment.py", "exec"), vars(segment))

SHAPE = (6, 10, 7)
LPS = np.array([[-1.0, 0, 0, 9], [0, -2, 0, 30], [0, 0, 3, -5], [0, 0, 0, 1]])


def ct(is_turned=False):
    """HU of a body in air, with a spine at the back: at the low end of the second axis, unless it is turned."""
    hu = np.full(SHAPE, -1000, np.int16)
    hu[1:-1, 1:-1] = np.arange(7)
    hu[2:4, 1:3] = 700
    return hu[:, ::-1] if is_turned else hu


def save(path, values, affine=LPS, **fields):
    image = nibabel.Nifti1Image(values, affine, dtype=values.dtype)
    for name, value in fields.items():
        image.header[name] = value
    nibabel.save(image, path)
    return path


def lost(path, values, pixdim=(0.8, 0.9, 2.5), **fields):
    """Writes a file whose header has neither sform nor qform."""
    image = nibabel.Nifti1Image(values, None)
    image.header.set_zooms(pixdim)
    for name, value in fields.items():
        image.header[name] = value
    nibabel.save(image, path)
    return path


def patch(path, offset, values):
    """Writes float32 values into the header of a file that is not compressed."""
    data = bytearray(path.read_bytes())
    data[offset : offset + 4 * len(values)] = np.array(values, np.float32).tobytes()
    path.write_bytes(data)
    return path


def scaled(path):
    return patch(save(path, ct()), 112, (2, 1000))  # scl_slope and scl_inter


def nan(path):
    values = ct().astype(np.float32)
    values[0, 0] = np.nan
    values[0, 1] = 1e6
    values[0, 2] = -3000.4
    return save(path, values)


GOOD = {
    "plain": lambda path: save(path, ct()),
    "big-endian": lambda path: save(path, ct().astype(">i2")),
    "fractions": lambda path: save(path, ct() + np.float32(0.3)),
    "scaled": scaled,
    "nan": nan,
    "wrapped": lambda path: save(path, ct().view(np.uint16)),
    "below air": lambda path: save(path, ct() * np.int16(3)),
    "constant": lambda path: save(path, np.full(SHAPE, 40, np.int16)),
    "no air": lambda path: save(path, np.maximum(ct(), 0)),
    "lost": lambda path: lost(path, ct()),
    "lost and turned": lambda path: lost(path, ct(is_turned=True)),
    "identity": lambda path: save(path, ct(is_turned=True), np.eye(4)),
    "no size": lambda path: lost(path, ct(), pixdim=(1, 1, 1)),
    "fourth axis": lambda path: save(path, ct()[..., np.newaxis]),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_ct_is_read_as_predict_reads_it(tmp_path, name):
    path = GOOD[name](tmp_path / "volume.nii")
    own, expected = segment.read_volume(path, ["CT"]), read_volume(path)
    values = own.geometry.to_canonical(own.channels[0])
    np.testing.assert_array_equal(values, expected.hu)
    np.testing.assert_allclose(own.geometry.spacing, expected.geometry.spacing, rtol=0)


def test_channels_are_read_as_predict_reads_them(tmp_path):
    description = Description(("T1w", "FLAIR"), {"a": 1}, {"a": (1,)})
    values = np.random.default_rng(0).normal(100, 9, (*SHAPE, 2)).astype(np.float32)
    values[0, 0, 0] = np.nan, np.inf
    path = save(tmp_path / "image.nii.gz", values)
    own, expected = segment.read_volume(path, description.channels), read_image([path], description)
    for ours, theirs in zip(own.channels, expected.channels, strict=True):
        np.testing.assert_array_equal(own.geometry.to_canonical(ours), theirs)


@pytest.mark.parametrize(
    ("dtype", "wrapped"), [(np.uint32, 2**32 - 1000), (np.uint32, 64536), (np.int32, 64536), (np.uint64, 2**64 - 1000)]
)
def test_negative_hu_in_wide_integers(tmp_path, capsys, dtype, wrapped):
    values = np.maximum(ct(), 0).astype(dtype)
    values[ct() == -1000] = wrapped
    (found,) = segment.read_volume(save(tmp_path / "volume.nii", values), ["CT"]).channels
    np.testing.assert_array_equal(found, ct())
    assert "are above 32767; they are read as negative HU" in capsys.readouterr().err


@pytest.mark.parametrize(("unit", "mm"), [(3, 1e-3), (1, 1e3), (2, 1.0), (0, 1.0)])
def test_lengths_are_mm_whatever_the_unit(tmp_path, unit, mm):
    path = save(tmp_path / "volume.nii", ct(), LPS, xyzt_units=unit)
    np.testing.assert_allclose(segment.read_volume(path, ["CT"]).geometry.spacing, np.multiply((1, 2, 3), mm))
    path = lost(tmp_path / "lost.nii", ct(), xyzt_units=unit)
    np.testing.assert_allclose(
        segment.read_volume(path, ["CT"]).geometry.spacing, np.multiply((0.8, 0.9, 2.5), mm), rtol=1e-6
    )
    assert segment.read_volume(path, ["CT"], (4, 5, 6)).geometry.spacing == (4, 5, 6)


SHEARED = LPS + np.array([[0, 0.1, 0, 0], *np.zeros((3, 4))])


@pytest.mark.parametrize(
    ("write", "message", "is_refused_by_predict"),
    [
        (lambda path: save(path, ct(), SHEARED), "is sheared: the angle between the voxel axes", False),
        (lambda path: save(path, np.full(SHAPE, np.nan, np.float32)), "all 420 voxels are NaN", True),
        (lambda path: save(path, np.full(SHAPE, 40000, np.float32)), "420 of 420 voxels are above 32767", True),
        (lambda path: save(path, ct() / np.float32(5000)), "the image was probably normalized", True),
        (lambda path: save(path, np.stack([ct()] * 2, -1)), "but the network needs a single 3-D volume", True),
        (lambda path: path.write_text("text") and path, "cannot be read as NIfTI", True),
        (lambda path: path, "cannot be read as NIfTI", True),
        (lambda path: patch(save(path, ct()), 280, [np.nan] * 4), "does not define the axes", True),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, capsys, write, message, is_refused_by_predict):
    path = write(tmp_path / "volume.nii")
    (tmp_path / "input.json").write_text('{"channels": ["CT"]}')
    assert segment.main([str(tmp_path), str(path), str(tmp_path / "out.nii.gz")]) == 1
    text = capsys.readouterr().err
    assert message in text
    assert "Fix: " in text
    assert not (tmp_path / "out.nii.gz").exists()
    if is_refused_by_predict:
        with pytest.raises(DataError):
            read_volume(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["volume.nii", "out.png"], "must be a new .nii or .nii.gz file"),
        (["volume.nii", "volume.nii"], "must be a new .nii or .nii.gz file"),
        (["volume.nii", "out.nii", "--spacing", "1,2"], "is not three positive sizes in mm"),
        (["volume.nii", "out.nii", "--spacing", "1,2,-3"], "is not three positive sizes in mm"),
        (["volume.nii", "out.nii"], "is not the folder of an exported network for volumes"),
    ],
)
def test_wrong_arguments(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "volume.nii", ct())
    with pytest.raises(SystemExit):
        segment.main([str(tmp_path), *words])
    assert message in capsys.readouterr().err


def test_warnings_are_those_of_predict(tmp_path, capsys, caplog):
    path = lost(tmp_path / "volume.nii.gz", ct(is_turned=True))
    with caplog.at_level(logging.WARNING):
        read_volume(path)
    segment.read_volume(path, ["CT"])
    text = "read as LPS, because the spine shows that the second axis points to the back, with voxels of 0.8 x 0.9 x"
    assert text in caplog.text
    assert text in capsys.readouterr().err


def test_it_needs_only_tensorflow_numpy_nibabel_and_scipy(tmp_path):
    nodes = [*ast.walk(ast.parse(program_text()))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {name.partition(".")[0] for name in imported} - {*sys.stdlib_module_names}
    assert packages == {"nibabel", "numpy", "scipy", "tensorflow"}
    assert not [name for name in ("scipy", "tensorflow") if hasattr(segment, name)]  # imported only where needed
    copy = tmp_path / "segment.py"
    copy.write_text(program_text())
    words = [sys.executable, "-I", copy, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "--spacing" in done.stdout


@pytest.mark.parametrize(
    ("dtype", "wrapped"),
    [(np.uint32, 2**32 - 1000), (np.uint32, 64536), (np.int32, 64536), (np.uint64, 2**64 - 1000)],
)
def test_hu_that_wrapped_into_wide_integers_are_repaired_as_in_predict(tmp_path, dtype, wrapped):
    values = np.maximum(ct(), 0).astype(dtype)
    values[ct() == -1000] = wrapped
    path = save(tmp_path / "volume.nii", values)
    own, expected = segment.read_volume(path, ["CT"]), read_volume(path)
    np.testing.assert_array_equal(own.geometry.to_canonical(own.channels[0]), expected.hu)


@pytest.mark.parametrize("unit", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("write", [lambda *a, **k: save(*a, LPS, **k), lambda *a, **k: save(*a, np.eye(4), **k), lost])
def test_units_are_those_of_predict(tmp_path, unit, write):
    path = write(tmp_path / "volume.nii", ct(), xyzt_units=unit)
    own, expected = segment.read_volume(path, ["CT"]), read_volume(path)
    np.testing.assert_allclose(own.geometry.spacing, expected.geometry.spacing, rtol=0)


@pytest.mark.parametrize("shear", [0.0005, 0.0016, 0.0019, 0.004, 0.1])
def test_shear_is_refused_where_predict_refuses_it(tmp_path, shear):
    path = save(tmp_path / "volume.nii", ct(), LPS + np.array([[0, shear, 0, 0], *np.zeros((3, 4))]))
    outcomes = []
    for read, error in (
        (lambda: segment.read_volume(path, ["CT"]), segment.DataError),
        (lambda: read_volume(path), DataError),
    ):
        try:
            read()
            outcomes.append("read")
        except error:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1] == {0.0005: "read", 0.1: "refused"}.get(shear, outcomes[1])


@pytest.mark.parametrize(
    "text",
    [
        "lits",
        "liver=largest",
        "liver+lesion=largest",
        "lesion=min_volume:0.05",
        "lesion=inside:liver",
        "lesion=inside:liver,liver=largest,lesion=min_volume:0.05",
        "lesion=min_volume:0.05,lesion=inside:liver,liver=largest",
    ],
)
def test_rules_remove_the_components_that_predict_removes(tmp_path, capsys, text):
    spacing = (2.5, 2.0, 5.0)  # 0.025 mL, so two voxels have the least volume
    cleanup = as_cleanup(text).resolve(LITS)
    rules = json.loads(json.dumps(cleanup.resolved))
    assert [rule["rule"] for rule in rules] == cleanup.names
    for seed in range(3):
        labels = np.random.default_rng(seed).choice(3, (8, 7, 6), p=[0.9, 0.05, 0.05]).astype(np.uint8)
        found = segment.apply_rules(labels, rules, spacing)  # whole components, not those of slabs
        np.testing.assert_array_equal(found, cleanup(labels, spacing, tmp_path))
        assert found.dtype == np.uint8
        assert (found != labels).any()
    assert f"segment.py: the rule {rules[0]['rule']} removed " in capsys.readouterr().err
    empty = np.zeros((3, 3, 3), np.uint8)
    np.testing.assert_array_equal(segment.apply_rules(empty, rules, spacing), empty)
    assert capsys.readouterr().err == ""


RULES = as_cleanup("liver=largest,lesion=min_volume:0.1").resolve(LITS).resolved


@pytest.mark.parametrize(
    ("rules", "missing", "message"),
    [
        (RULES, ["scipy"], "the rules liver=largest, lesion=min_volume:0.1 need SciPy, which is not installed. Fix: "),
        ([RULES[0] | {"kind": "round"}], [], "has the kind 'round', but this program knows largest, min_volume, ins"),
    ],
)
def test_rules_that_cannot_be_applied_are_refused_unless_they_are_turned_off(
    tmp_path, monkeypatch, capsys, rules, missing, message
):
    monkeypatch.setattr(segment, "find_spec", lambda name: None if name in missing else object())
    applied = []
    monkeypatch.setattr(segment, "segment", lambda model, volume, rules: applied.append(rules) or volume.image)
    (tmp_path / "input.json").write_text(json.dumps({"channels": ["CT"], "cleanup": rules}))
    words = [str(tmp_path), str(save(tmp_path / "volume.nii", ct())), str(tmp_path / "out.nii.gz")]
    assert segment.main(words) == 1
    text = capsys.readouterr().err
    assert message in text
    assert "--no_cleanup" in text
    assert not (tmp_path / "out.nii.gz").exists()
    assert segment.main([*words, "--no_cleanup"]) == 0
    assert applied == [[]]
    assert (tmp_path / "out.nii.gz").exists()


@pytest.mark.parametrize("cleanup", [{}, {"cleanup": None}])
def test_a_card_without_rules_needs_no_scipy(tmp_path, monkeypatch, cleanup):
    monkeypatch.setattr(segment, "find_spec", lambda name: None)
    monkeypatch.setattr(segment, "segment", lambda model, volume, rules: volume.image)
    (tmp_path / "input.json").write_text(json.dumps({"channels": ["CT"], **cleanup}))
    words = [str(tmp_path), str(save(tmp_path / "volume.nii", ct())), str(tmp_path / "out.nii.gz")]
    assert segment.main(words) == 0
