"""The benchmark of learning: contenders, the Keras program, the tables, and runs that are not repeated."""

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import __main__ as learning
from benchmarks.learning import cases, runner, table
from benchmarks.learning.contenders import ALL, MULTIPLE, SPACING
from benchmarks.learning.runner import Runner, case_rows
from mtf_imaging.cli.config.resources import shipped_files
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights


def finish(folder, contender, seed, *shared, steps=30):
    """Writes the result of a run: case 7, case 300 and so on share some of 10 predicted and 10 reference voxels."""
    rows = []
    for key, voxels in zip((7, 300, 301), shared, strict=False):
        counts = {"predicted": 10, "reference": 10, "shared": voxels}
        values = {f"{what}_{of}": n for what in ("liver", "lesion", "lesions") for of, n in counts.items()}
        rows += [
            {"case": key, "threshold": 0.5, **values},
            {"case": key, "threshold": 0.1, **values, "lesion_shared": 9},
        ]
    path = folder / f"{contender}-{seed}"
    path.mkdir(parents=True)
    result = {"contender": contender, "seed": seed, "steps": steps, "cpu_seconds": 70.0, "cases": rows}
    (path / runner.RESULT).write_text(json.dumps(result))


def cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_the_table_has_means_ranges_and_paired_differences(tmp_path):
    for seed, ours, keras in ((1, 6, 5), (2, 8, 5)):
        finish(tmp_path, "documented", seed, 0, ours, ours)
        finish(tmp_path, "keras_whole", seed, 4, keras, keras)
    table.write(tmp_path)
    path = tmp_path / table.CASES
    _, _, documented, keras = table.text(path, wide=True).splitlines()
    assert cells(documented)[1:6] == ["2", "30", "70", "0.700 (0.600 to 0.800)", ""]
    assert cells(documented)[6:] == ["0.700"] * 4 + ["0.700 (0.600 to 0.800)"]
    # The differences are -0.1 and -0.3: a mean of -0.2 with a standard error of 0.1, of which t(0.975, 1) = 12.706.
    assert cells(keras)[:6] == [
        "`keras_whole`: plain Keras, whole volumes",
        *("2", "30", "70", "0.500 (0.500 to 0.500)", "-0.200 (-1.471 to +1.071)"),
    ]
    assert "`keras_whole`" in table.text(path, wide=False)
    assert table.by_case(path).splitlines() == [
        "| contender | case 7 | case 300 | case 301 |",
        "| --- | --- | --- | --- |",
        "| `documented` | 0.000 | 0.700 | 0.700 |",
        "| `keras_whole` | 0.400 | 0.500 | 0.500 |",
    ]
    columns = {"folds": (tmp_path / "none.csv", None), "test": (path, False), "wide": (path, True)}
    assert [cells(line)[0::3] for line in table.by_threshold(columns).splitlines()[2:]] == [
        ["0.5 (argmax)", "0.700 (0.600 to 0.800)"],
        ["0.1", "0.900 (0.900 to 0.900)"],
    ]


def test_cases_without_lesions_count_in_precision_but_not_in_dice():
    row = {"lesion_predicted": "4", "lesion_reference": "0", "lesion_shared": "0"}
    real = {"lesion_predicted": "4", "lesion_reference": "4", "lesion_shared": "2"}
    assert table.dice([row, real]) == 0.5
    assert table.share([row, real], "lesion", "predicted") == 0.25
    assert table.share([row, real], "lesion", "reference") == 0.5


def test_rows_of_a_case_at_each_threshold(tmp_path):
    import nibabel

    reference = np.zeros((6, 4, 4), np.uint8)
    reference[1:5, 1:3] = 1
    reference[2, 1, 1], reference[4, 2, 2] = 2, 2
    probabilities = np.eye(3, dtype=np.float32)[np.minimum(reference, 1)]
    probabilities[2, 1, 1] = 0, 0.4, 0.6
    probabilities[4, 2, 2] = 0, 0.75, 0.25
    turned = np.diag([-3.0, 3, 3, 1])
    (tmp_path / "test").mkdir()
    for path, array in (("test/segmentation-7.nii.gz", reference), ("segmentation-7.nii.gz", probabilities)):
        nibabel.save(nibabel.Nifti1Image(array, turned), tmp_path / path)
    rows = {row["threshold"]: row for row in case_rows(tmp_path / "segmentation-7.nii.gz", tmp_path)}
    assert [*rows] == [*runner.THRESHOLDS]
    for threshold, found in ((0.5, 1), (0.3, 1), (0.2, 2)):
        row = rows[threshold]
        assert [row[f"lesion_{of}"] for of in ("predicted", "reference", "shared")] == [found, 2, found]
        assert [row[f"lesions_{of}"] for of in ("predicted", "reference", "shared")] == [found, 2, found]
        assert row["liver_shared"] == row["liver_reference"] == 32


def test_the_documented_contender_follows_the_first_lines_of_its_job():
    (job,) = (path for name, path in shipped_files().items() if name == "gin/unet3d_real_ct.gin")
    assert " ".join(("--spacing", SPACING, *MULTIPLE)) in job.read_text()
    assert not ALL["documented"].settings


def test_finished_runs_are_not_repeated(lits_sizes, tmp_path, monkeypatch, capsys):
    ran = []

    def run(self, contender, seed):
        ran.append((contender.name, seed))
        finish(self.output_dir, contender.name, seed, 5, 5)

    monkeypatch.setattr(Runner, "run", run)
    words = ["learning", "--cases", str(lits_sizes), "--output_dir", str(tmp_path / "out"), "--seeds", "1,2"]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", [*words, "--contenders", "documented,zero_biases"])
        learning.main()
        assert "`zero_biases`" in capsys.readouterr().out
    assert ran == [(name, seed) for seed in (1, 2) for name in ("documented", "zero_biases")]
    monkeypatch.setattr(sys, "argv", [*words, "--contenders", "typo"])
    with pytest.raises(SystemExit):
        learning.main()
    assert "unknown contender typo. Fix: choose from documented, keras_whole, " in capsys.readouterr().err
    monkeypatch.setattr(
        sys, "argv", ["learning", "--cases", str(tmp_path / "no"), "--output_dir", str(tmp_path / "new")]
    )
    with pytest.raises(SystemExit):
        learning.main()
    assert f"{tmp_path / 'no' / 'train'} has no volume-N.nii[.gz]. Fix: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_first_weights_of_both_programs_have_the_same_names_and_shapes(tmp_path):
    import nibabel

    rng, folder = np.random.default_rng(0), tmp_path / "cases"
    (folder / "train").mkdir(parents=True)
    for name, values in (
        ("volume", rng.integers(-160, 240, (16, 16, 16))),
        ("segmentation", rng.integers(0, 3, (16,) * 3)),
    ):
        image = nibabel.Nifti1Image(values.astype(np.int16), np.diag([3, 3, 3, 1]))
        nibabel.save(image, folder / "train" / f"{name}-0.nii.gz")
    run = Runner(folder, cases.HELD_OUT, tmp_path)
    keras = Weights(find_weights(run._keras_weights(1, folder)))
    with np.load(run._our_weights(1, folder)) as ours:
        assert {name: ours[name].shape for name in keras.shapes} == keras.shapes
        assert not {name for name in ours.files if not name.endswith(("mean", "square"))} - {*keras.shapes}
        scales = [ours[name] for name in keras.shapes if name.endswith("scale")]
    assert all(np.array_equal(scale, np.ones_like(scale)) for scale in scales)  # no step has changed them


def test_three_folds_score_each_training_case_once(lits_sizes, tmp_path):
    scored = []
    for seed in (1, 2, 3):
        fold = cases.prepare(lits_sizes, cases.ON_FOLDS, seed, tmp_path / "out")
        names = {
            part: [path.name for path in (fold / part).iterdir()]
            for part in ("train", "test")
            if (fold / part).exists()
        }
        scored += names.get("test", [])
        assert sorted(name for part in names.values() for name in part) == sorted(
            f"{kind}-{n}.nii.gz" for kind in ("volume", "segmentation") for n in (0, 1, 2, 3)
        )
    assert len(scored) == len(set(scored)) == 8
    held_out = cases.prepare(lits_sizes, cases.HELD_OUT, 1, tmp_path / "out")
    assert sorted(cases.number(path) for path in held_out.glob("test/volume*")) == [7, 300]


def test_a_header_without_axes_is_repaired(lits_sizes, tmp_path):
    import nibabel

    folder = cases.prepare(lits_sizes, cases.HELD_OUT, 1, tmp_path / "out")
    for kind in ("volume", "segmentation"):
        repaired = nibabel.load(folder / f"test/{kind}-7.nii.gz")
        np.testing.assert_allclose(np.abs(np.diag(repaired.affine)), [3, 3, 5, 1])
    assert (folder / "train/volume-1.nii.gz").is_symlink()


def test_voxel_sizes_that_headers_lack_come_from_the_other_cases(lits_sizes):
    assert cases.lost_sizes(lits_sizes) == "case,x,y,z\n7,3,3,5\n"


@pytest.fixture
def lits_sizes(tmp_path):
    import nibabel

    for part, numbers in (("train", range(4)), ("test", [7]), ("wide", [300])):
        (tmp_path / part).mkdir()
        for number, (kind, dtype) in itertools.product(numbers, (("volume", np.int16), ("segmentation", np.uint8))):
            affine = np.eye(4) if number == 7 else np.diag([3.0, 3, 5, 1])
            path = tmp_path / part / f"{kind}-{number}.nii.gz"
            nibabel.save(nibabel.Nifti1Image(np.zeros((3, 2, 2), dtype), affine), path)
    return tmp_path


@pytest.mark.slow
def test_the_keras_program_has_the_network_of_the_job_and_keeps_the_voxels_of_a_file(tmp_path):
    import nibabel

    from benchmarks.learning import keras_unet

    model = keras_unet.network()
    assert sum(int(np.prod(weight.shape)) for weight in model.trainable_weights) == 350_827
    source = Path(keras_unet.__file__).read_text()
    assert not re.search(r"^(from|import) (mtf_imaging|benchmarks)", source, re.MULTILINE)
    rng = np.random.default_rng(0)
    flipped = np.diag([-3.0, -3, 3, 1])
    labels = (rng.random((9, 8, 7)) > 0.7).astype(np.uint8) + (rng.random((9, 8, 7)) > 0.9)
    nibabel.save(nibabel.Nifti1Image(300 * labels.astype(np.int16), flipped), tmp_path / "volume-1.nii.gz")
    nibabel.save(nibabel.Nifti1Image(labels.astype(np.uint8), flipped), tmp_path / "segmentation-1.nii.gz")
    ((image, turned, file),) = keras_unet.read(tmp_path)
    np.testing.assert_array_equal(turned, labels[::-1, ::-1])
    values = np.eye(3, dtype=np.float32)[turned]
    keras_unet.save(values, file, tmp_path / "out.nii.gz")
    np.testing.assert_array_equal(np.argmax(nibabel.load(tmp_path / "out.nii.gz").dataobj, -1), labels)
    assert image.shape == labels.shape


@pytest.mark.slow
def test_both_programs_have_equal_losses_from_equal_weights():
    from benchmarks.learning import same_start

    assert max(same_start.compare(3)) < 1e-12
