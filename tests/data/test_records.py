import dataclasses
import json
import re

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.make_record import write_case
from mtf_imaging.data.records.manifest import Source, open_records, read_manifest, record_path
from mtf_imaging.data.sampling.sampling import Sampling, whole_field
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files import lock
from mtf_imaging.files.partial import remove
from tests.data.reading import read_labels, read_volume
from tests.data.resampling import resample_linear, resample_nearest
from tests.leftovers import ended_path
from tests.records import contents, copy, damage, make_record, names, read_record, voxel_file, write_record
from tests.storage import as_nobody


@pytest.fixture
def record(lits_dir):
    return make_record(find_cases(lits_dir)[0], Sampling((4, 5, 6)))


def test_conversion_resamples_each_case_on_canonical_axes(tmp_path, lits_dir, capsys):
    assert convert(lits_dir, tmp_path / "out", "x:4,y:5,z:3") == ["2", "9", "10"]
    assert names(tmp_path / "out") == ["case-10.ome.zarr", "case-2.ome.zarr", "case-9.ome.zarr", "dataset.json"]
    manifest = open_records(tmp_path / "out", (4, 5, 3))
    assert (manifest.sampling, manifest.cases) == (Sampling((4, 5, 3)), ["2", "9", "10"])
    for case in find_cases(lits_dir):
        volume = read_volume(case.volume)
        record = read_record(record_path(tmp_path / "out", case.key))
        spans, labels = whole_field(volume.hu.shape, (4, 5, 3)), read_labels(case.labels, volume)
        np.testing.assert_array_equal(record.image, resample_linear(volume.hu, spans).round())
        np.testing.assert_array_equal(record.labels, resample_nearest(labels, spans))
        assert (record.shape, record.spacing) == (volume.hu.shape, (1.5, 2.0, 3.0))
        np.testing.assert_allclose(record.affine, volume.geometry.canonical_affine)
        assert manifest.sources[case.key] == Source(
            digest=record.source,
            volume=case.volume.name,
            labels=case.labels.name,
            shape=record.shape,
            spacing=record.spacing,
            affine=tuple(map(tuple, record.affine.tolist())),
            axis_codes=record.axis_codes,
        )
    out = capsys.readouterr().out
    assert "stored LPS -> x, y, z = R, A, S: 1 (9)" in out
    assert "stored SAL -> x, y, z = R, A, S: 1 (10)" in out


def test_a_folder_is_not_converted_into_itself(lits_dir):
    before = sorted(lits_dir.iterdir())
    with pytest.raises(DataError, match="is the folder of the cases, which records would be mixed with"):
        convert(lits_dir, lits_dir / "." / ".." / lits_dir.name, 8)
    assert sorted(lits_dir.iterdir()) == before


def test_an_interrupted_conversion_is_resumed(tmp_path, lits_dir, monkeypatch, capsys):
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    expected = contents(out)
    (out / "dataset.json").unlink()
    copy(record_path(out, "10"), record_path(out, "2"))
    remove(record_path(out, "9"))
    damage(record_path(out, "10"))
    with pytest.raises(DataError, match=r"contains records but no dataset\.json, so its conversion is unfinished"):
        open_records(out)
    made = []
    monkeypatch.setattr(
        "mtf_imaging.data.records.make_record.write_case",
        lambda case, *how: made.append(case.key) or write_case(case, *how),
    )
    convert(lits_dir, out, 4)
    assert made == ["2", "9", "10"]
    assert "3 cases in" in capsys.readouterr().out
    assert contents(out) == expected


def test_a_bad_case_leaves_no_manifest_and_no_half_record(tmp_path, lits_dir):
    volume = lits_dir / "volume-9.nii.gz"
    volume.write_bytes(volume.read_bytes()[:200])
    with pytest.raises(DataError, match=r"volume-9\.nii\.gz: cannot be read"):
        convert(lits_dir, tmp_path / "out", 4, progress=False)
    assert names(tmp_path / "out") == ["case-10.ome.zarr", "case-2.ome.zarr"]  # all other cases are converted


def test_folders_of_another_run_are_refused(tmp_path, lits_dir, store, arrays):
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    before = contents(out)
    with pytest.raises(DataError, match=r"contains records of resolution x:4,y:4,z:4, not x:8,y:8,z:8"):
        convert(lits_dir, out, 8, progress=False)
    manifest = (out / "dataset.json").read_bytes()
    (out / "dataset.json").unlink()
    with pytest.raises(DataError, match=r"this record has resolution x:4,y:4,z:4, not x:8,y:8,z:8"):
        convert(lits_dir, out, 8, progress=False)
    (out / "dataset.json").write_bytes(manifest)
    original = (lits_dir / "segmentation-9.nii").read_bytes()
    store(lits_dir / "segmentation-9.nii", arrays(5, (7, 6, 5))[1], "LPS")
    with pytest.raises(DataError, match=r"case-9\.ome\.zarr: this record was not made from the present "):
        convert(lits_dir, out, 4, progress=False)
    (lits_dir / "segmentation-9.nii").write_bytes(original)
    (lits_dir / "segmentation-10.nii").unlink()
    (lits_dir / "volume-10.nii.gz").unlink()
    with pytest.raises(DataError, match=r"contains 1 record\(s\) of cases that .* such as case-10\.ome\.zarr"):
        convert(lits_dir, out, 4, progress=False)
    assert contents(out) == before


def test_folders_without_usable_records_are_refused(tmp_path, lits_dir):
    with pytest.raises(DataError, match="does not exist"):
        open_records(tmp_path / "missing")
    with pytest.raises(DataError, match="contains no records"):
        open_records(lits_dir)
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    with pytest.raises(DataError, match=r"resolution x:4,y:4,z:4, not x:16,y:16,z:16.*Fix"):
        open_records(out, (16, 16, 16))
    remove(out / "case-9.ome.zarr")
    with pytest.raises(DataError, match=r"case-9\.ome\.zarr: named in dataset\.json but missing"):
        open_records(out)
    for version in (4, 99):
        (out / "dataset.json").write_text(f'{{"format": {version}, "cases": []}}')
        with pytest.raises(
            DataError, match=f"records have format {version}, but this program reads format 5. Fix: convert to a new"
        ):
            read_manifest(out)
    (out / "dataset.json").write_text('{"format": 1')
    with pytest.raises(DataError, match=r"dataset\.json: not a JSON file"):
        read_manifest(out)


def test_other_fields_of_a_manifest_are_ignored(tmp_path, lits_dir):
    convert(lits_dir, tmp_path, 4, progress=False)
    manifest, file = open_records(tmp_path), tmp_path / "dataset.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"record_format": "zarr"}))
    assert open_records(tmp_path) == manifest


@pytest.mark.slow
def test_parallel_processes_write_the_same_bytes(tmp_path, lits_dir, capsys):
    convert(lits_dir, tmp_path / "one", 4, progress=False)
    convert(lits_dir, tmp_path / "two", 4, workers=2)
    assert "3 cases in" in capsys.readouterr().out
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_all_unusable_cases_are_reported(tmp_path, lits_dir):
    for number in (2, 9):
        volume = lits_dir / f"volume-{number}.nii.gz"
        volume.write_bytes(volume.read_bytes()[:200])
    with pytest.raises(
        DataError, match=r"2 of 3 cases cannot be used:\n  .*volume-2.*\n  .*volume-9.*: cannot be read"
    ):
        convert(lits_dir, tmp_path / "out", 4, progress=False, workers=2)


def test_any_exception_of_a_case_is_reported_after_the_others_are_converted(tmp_path, lits_dir, monkeypatch):
    def failing(case, *_):
        if case.key in ("2", "10"):
            raise {"2": RecursionError("too deep"), "10": OverflowError("infinity")}[case.key]
        return write_case(case, *_)

    monkeypatch.setattr("mtf_imaging.data.records.make_record.write_case", failing)
    with pytest.raises(DataError) as caught:
        convert(lits_dir, tmp_path / "out", 4, progress=False)
    head, *lines = str(caught.value).splitlines()
    assert head == "2 of 3 cases cannot be used:"
    assert lines[0].startswith(f"  {lits_dir}/volume-2.nii.gz: cannot be used (RecursionError: too deep)")
    assert lines[1].startswith(f"  {lits_dir}/volume-10.nii.gz: cannot be used (OverflowError: infinity)")
    assert names(tmp_path / "out") == ["case-9.ome.zarr"]


def test_a_name_too_long_for_its_record_is_the_error_of_its_case(tmp_path, lits_dir):
    for folder, name in (("imagesTr", "volume-2.nii.gz"), ("labelsTr", "segmentation-2.nii")):
        for key in ("x" * 245, "short"):
            (tmp_path / "data" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / folder / f"{key}{'.nii.gz' if name.endswith('gz') else '.nii'}").write_bytes(
                (lits_dir / name).read_bytes()
            )
    with pytest.raises(
        DataError,
        match=r"x{245}.*: this name has 259 bytes, but .* at most 255\. Fix: give",
    ):
        convert(tmp_path / "data", tmp_path / "out", 4, progress=False)
    assert names(tmp_path / "out") == ["case-short.ome.zarr"]


def test_all_unusable_headers_are_reported_before_a_grid_is_chosen(tmp_path, lits_dir):
    for number in (2, 9):
        (lits_dir / f"volume-{number}.nii.gz").write_bytes(b"x")
    with pytest.raises(DataError, match=r"2 of 3 cases cannot be used:\n  .*volume-2.*\n  .*volume-9"):
        convert(lits_dir, tmp_path / "out", spacing=2, progress=False)


def test_partial_files_are_removed_and_a_concurrent_conversion_is_refused(tmp_path, lits_dir):
    out = tmp_path / "out"
    out.mkdir()
    ended_path(out / "dataset.json").write_bytes(b"half")
    (ended_path(out / "case-2.ome.zarr") / "0").mkdir(parents=True)
    with (
        lock.held(out),
        pytest.raises(ConfigError, match=r"another run is writing to this folder \(process .* another output_dir\.$"),
    ):
        convert(lits_dir, out, 4, progress=False)
    convert(lits_dir, out, 4, progress=False)
    assert names(out) == ["case-10.ome.zarr", "case-2.ome.zarr", "case-9.ome.zarr", "dataset.json"]


def test_a_changed_table_of_voxel_sizes_is_reported(tmp_path):
    cases = tmp_path / "cases"
    cases.mkdir()
    for name, dtype in (("volume", np.int16), ("segmentation", np.uint8)):
        nibabel.save(nibabel.Nifti1Image(np.ones((4, 4, 4), dtype), np.eye(4)), cases / f"{name}-28.nii")
    table = tmp_path / "spacing.csv"
    table.write_text("case,x,y,z\n28,0.5,0.5,2\n")
    convert(cases, tmp_path / "out", 4, spacing_csv=table, progress=False)
    convert(cases, tmp_path / "out", 4, spacing_csv=table, progress=False)
    assert read_manifest(tmp_path / "out").sources["28"].spacing == (0.5, 0.5, 2)
    with pytest.raises(
        DataError, match=r"this record was made with voxels of 0\.5,0\.5,2 mm, but they are now 1,1,1 mm\. Fix"
    ):
        convert(cases, tmp_path / "out", 4, progress=False)


def test_training_refuses_a_record_that_does_not_match_the_manifest(tmp_path, lits_dir, record):
    out = tmp_path / "out"
    convert(lits_dir, out, "x:4,y:5,z:6", progress=False)
    path, whole = record_path(out, "2"), tmp_path / "whole"
    copy(path, whole)
    name = re.escape(path.name)
    write_record(path, dataclasses.replace(record, source="other"))
    with pytest.raises(DataError, match=rf"{name}: this record was not made from the files that dataset\.json names"):
        next(Records().training_batches(out, 3, seed=0))
    copy(record_path(out, "9"), path)
    with pytest.raises(DataError, match=rf"{name}.*contains case '9', which does not match its name\. Fix: run"):
        next(Records().training_batches(out, 3, seed=0))
    copy(whole, path)
    file = voxel_file(path)
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(DataError, match=rf"{name}.*is damaged.* Fix: run"):
        next(Records().training_batches(out, 3, seed=0))
    copy(whole, path)
    assert next(Records().training_batches(out, 3, seed=0))["image"].shape == (3, 4, 5, 6, 1)


def test_an_unreadable_record_is_named(open_folder, record):
    path = open_folder / "case-2.ome.zarr"
    write_record(path, record)
    file = voxel_file(path)
    file.chmod(0)
    with as_nobody(), pytest.raises(DataError, match=rf"^{file}: Permission denied\. Fix: allow"):
        read_record(path)


def test_an_empty_mask_logs_a_warning(tmp_path, lits_dir, store, caplog):
    mask = store(lits_dir / "segmentation-9.nii", np.zeros((7, 6, 5), np.uint8), "LPS")
    for _ in range(2):  # converted, then kept
        assert convert(lits_dir, tmp_path / "out", 4, progress=False) == ["2", "9", "10"]
    assert caplog.text.count(f"{mask}: this mask has no voxel of liver or lesion") == 1


def test_a_folder_of_empty_masks_is_refused(tmp_path, lits_dir, store):
    for path in lits_dir.glob("segmentation-*.nii"):
        store(path, np.zeros(nibabel.load(path).shape, np.uint8))
    for _ in range(2):  # converted, then kept
        with pytest.raises(DataError, match=rf"{lits_dir}: none of the 3 cases has a voxel of liver or lesion.* Fix: "):
            convert(lits_dir, tmp_path / "out", 4, progress=False)
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_case_too_large_for_memory_is_named(tmp_path, lits_dir, monkeypatch):
    def resample(*_):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr("mtf_imaging.data.records.make_record.channel_slabs", resample)
    with pytest.raises(DataError) as error:
        convert(lits_dir, tmp_path / "out", 4, progress=False)
    what, *lines = str(error.value).splitlines()
    assert (what, len(lines)) == ("3 of 3 cases cannot be used:", 3)
    assert lines[0] == (
        f"  {lits_dir}/volume-2.nii.gz: not enough memory (Unable to allocate 9 GiB). Fix: free memory, use fewer "
        "workers if there are several, or use a machine with more memory."
    )
    assert error.value.settings == ("workers",)


def test_convert_proposes_the_voxels_of_the_cases_if_records_lose_detail(lits_dir, tmp_path, capsys):
    x, y, z = np.median([read_volume(case.volume).geometry.spacing for case in find_cases(lits_dir)], axis=0)
    text = f"Spacing {x:.3g},{y:.3g},{z:.3g} keeps it."
    convert(lits_dir, tmp_path / "coarse", resolution="x:4,y:6,z:6")
    printed = capsys.readouterr().out
    assert text in printed
    assert "in its record: x lose detail" in printed
    convert(lits_dir, tmp_path / "fine", resolution=8)
    convert(lits_dir, tmp_path / "spacing", spacing=9)
    assert "lose detail" not in capsys.readouterr().out
