"""The benchmark of learning: contenders, the Keras program, the table, and runs that are not repeated."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import __main__ as learning
from benchmarks.learning import cases, clocked, table
from benchmarks.learning.contenders import ALL, DOCUMENTED
from benchmarks.learning.runner import Runner
from mtf_imaging.cli.config.resources import shipped_files
from tests.scores import read_rows

SNAPSHOTS = [[10, 30.0, 0.85, 0.1], [20, 50.0, 0.92, 0.4], [30, 70.0, 0.95, 0.6]]


def finish(folder, contender, seed, lesion, snapshots=SNAPSHOTS, steps=30):
    dice = {"liver": 0.95, "lesion": lesion}
    result = {"contender": contender, "seed": seed, "steps": steps, "cpu_seconds": 70.0, **dice}
    path = folder / f"{contender}-{seed}"
    path.mkdir(parents=True)
    (path / table.RESULT).write_text(json.dumps(result | {"cases": {"7": dice}, "snapshots": snapshots}))


def test_the_table_has_means_ranges_differences_and_times(tmp_path):
    finish(tmp_path, "keras_whole", 1, 0.5)
    finish(tmp_path, "documented", 1, 0.6)
    finish(tmp_path, "documented", 2, 0.8, [[*row[:3], 0.2] for row in SNAPSHOTS])
    table.write(tmp_path)
    _, _, documented, keras = table.text(tmp_path / table.RESULTS).splitlines()
    cells = [cell.strip() for cell in documented.split("|")[1:-1]]
    assert cells[1:4] == ["2", "30", "70"]
    assert cells[4:] == ["0.700 (0.600 to 0.800)", "", "0.950 (0.950 to 0.950)", "70; 1 of 2 never", "50"]
    cells = [cell.strip() for cell in keras.split("|")[1:-1]]
    assert cells[0] == "`keras_whole`: plain Keras, whole volumes"
    assert cells[4:6] == ["0.500", "-0.100"]
    assert [
        row["cpu_seconds"] for row in read_rows(tmp_path / table.SNAPSHOTS) if row["contender"] == "keras_whole"
    ] == [
        "30.0",
        "50.0",
        "70.0",
    ]
    assert (tmp_path / table.FIGURE).read_bytes().startswith(b"\x89PNG")
    assert table.by_case(tmp_path / table.CASES).splitlines()[2:] == [
        "| `documented` | 0.700 / 0.950 |",
        "| `keras_whole` | 0.500 / 0.950 |",
    ]


def test_the_time_to_a_dice_is_that_of_the_first_snapshot():
    assert table.time_to(SNAPSHOTS, "liver", 0.9) == 50.0
    assert table.time_to(SNAPSHOTS, "lesion", 0.5) == 70.0
    assert table.time_to(SNAPSHOTS, "lesion", 0.7) is None


def test_schedules_end_with_the_run():
    assert "PolyDecay.steps = 200" in ALL["documented"].bindings(200)
    assert "WarmUp.steps = 20" in ALL["warm_up"].bindings(200)
    assert "StepDecay.every = 133" in ALL["step_decay"].bindings(200)


def test_the_documented_contender_follows_the_first_lines_of_its_job():
    (job,) = (path for name, path in shipped_files().items() if name == "gin/unet3d_real_ct.gin")
    assert " ".join(DOCUMENTED) in job.read_text()
    assert not ALL["documented"].settings


def test_finished_runs_are_not_repeated(lits_sizes, tmp_path, monkeypatch, capsys):
    ran = []

    def run(self, contender, seed, steps, core):
        ran.append((contender.name, seed, steps))
        finish(self.output_dir, contender.name, seed, 0.5)

    monkeypatch.setattr(Runner, "convert", lambda *_: None)
    monkeypatch.setattr(Runner, "pilot", lambda self, contender, seed, core: (10.0, 0.5))
    monkeypatch.setattr(Runner, "run", run)
    words = ["learning", "--cases", str(lits_sizes), "--output_dir", str(tmp_path / "out"), "--seeds", "1,2"]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", [*words, "--contenders", "documented,zero_biases", "--cpu_seconds", "60"])
        learning.main()
        assert "`zero_biases`" in capsys.readouterr().out
    assert sorted(ran) == [(name, seed, 100) for name in ("documented", "zero_biases") for seed in (1, 2)]
    monkeypatch.setattr(sys, "argv", [*words, "--contenders", "typo"])
    with pytest.raises(SystemExit):
        learning.main()
    assert "unknown contender typo. Fix: choose from main, choices, all, or names: " in capsys.readouterr().err
    monkeypatch.setattr(
        sys, "argv", ["learning", "--cases", str(tmp_path / "no"), "--output_dir", str(tmp_path / "new")]
    )
    with pytest.raises(SystemExit):
        learning.main()
    assert f"{tmp_path / 'no' / 'train'} has no volume-N.nii[.gz]. Fix: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_settings_are_chosen_without_the_test_cases():
    assert set(learning.GROUPS["choices"]) == {name for name, contender in ALL.items() if not contender.is_keras}


def test_three_folds_score_each_training_case_once(tmp_path):
    names = [f"{kind}-{number}.nii.gz" for kind in ("volume", "segmentation") for number in range(7)]
    for name in names:
        path = tmp_path / "train" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    scored = []
    for seed in (1, 2, 3):
        fold = cases.split(tmp_path, cases.ON_FOLDS, seed, tmp_path / "out")
        held_out, trained = (sorted(path.name for path in (fold / part).iterdir()) for part in ("test", "train"))
        assert sorted(held_out + trained) == sorted(names)
        scored += held_out
    assert sorted(scored) == sorted(names)
    assert cases.split(tmp_path, cases.TEST, 1, tmp_path / "out") == tmp_path


def test_voxel_sizes_that_headers_lack_come_from_the_other_cases(lits_sizes):
    assert cases.lost_sizes(lits_sizes) == "case,x,y,z\n7,3,3,5\n"


def test_evaluations_are_no_part_of_the_cpu_seconds(tmp_path, monkeypatch):
    clock = iter([10.0, 14.0, 20.0, 21.0])  # before and after each of two evaluations
    monkeypatch.setattr(clocked.time, "process_time", lambda: next(clock))
    monkeypatch.setattr(clocked.Evaluator, "_run", lambda self, step: None)
    monkeypatch.setattr(clocked.ClockedEvaluator, "path", tmp_path / "seconds.csv", raising=False)
    evaluator = object.__new__(clocked.ClockedEvaluator)
    evaluator._run(5)
    evaluator._run(10)
    assert (tmp_path / "seconds.csv").read_text() == "step,cpu_seconds\n5,10.00\n10,16.00\n"


@pytest.fixture
def lits_sizes(tmp_path):
    import nibabel

    for part, number, affine in (("train", 1, np.diag([3.0, 3, 5, 1])), ("test", 7, np.eye(4))):
        path = tmp_path / part / f"volume-{number}.nii.gz"
        path.parent.mkdir(exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(np.zeros((3, 2, 2), np.int16), affine), path)
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
    ((name, image, turned, file),) = keras_unet.read(tmp_path)
    np.testing.assert_array_equal(turned, labels[::-1, ::-1])
    keras_unet.save(turned, file, tmp_path / "out.nii.gz")
    np.testing.assert_array_equal(nibabel.load(tmp_path / "out.nii.gz").dataobj, labels)
    assert name == "segmentation-1.nii.gz"
    assert image.shape == labels.shape


@pytest.mark.slow
def test_both_programs_have_equal_losses_from_equal_weights():
    from benchmarks.learning import same_start

    assert max(same_start.compare(3)) < 1e-12
