"""Training on records with several grids equals training in which each grid has a program of its own."""

import dataclasses
import json
import logging

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.engine.meshes import runtime
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.evaluation.volume_scores.overlap import label_overlaps
from mtf_imaging.evaluation.volume_scores.summary import dice_per_case
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.steps.batches import whole_inputs
from mtf_imaging.jobs.steps.building import bucket_batches, modeled_memory, open_buckets
from mtf_imaging.jobs.steps.costs import turn_costs
from mtf_imaging.kinds.volumes.held_out import HeldOutRecords
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.prediction import predictor
from mtf_imaging.training.step import TrainingStep
from tests.records import read_record
from tests.scores import read_losses, read_rows

MM = (40.0, 40.0, 40.0)
UNEVEN = mi.Layout.parse("rows:3", "x:rows")  # 8 and 12 or more voxels over 3 processors
STEPS = 5
TASK = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm="group", norm_groups=1, dropout_rate=0.3))


def settings(folder, **changes):
    given = {"task": TASK, "optimizer": Adam(0.01), "batch_size": 2, "dtype": "float64", "checkpoint_every": 2}
    given["class_frequencies"] = None  # the program to compare with starts from biases of 0
    return given | {"data": folder / "records", "num_steps": STEPS, "progress": False} | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("buckets")
    write_phantom(folder / "cases", 4, seed=1)
    resize(folder / "cases")
    options = {"spacing": MM, "grids": 2, "multiple": 4, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", **options)
    mi.jobs.train(**settings(folder), model_dir=folder / "run")
    return folder


def resize(cases):
    """Enlarges the voxels of one case, so that it needs a larger grid."""
    import nibabel

    for name in ("volume-2.nii.gz", "segmentation-2.nii.gz"):
        (path,) = [path for path in cases.iterdir() if path.name == name]
        image = nibabel.load(path)
        scaled = image.affine @ np.diag([1.6, 1.6, 1.3, 1.0])
        nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj), scaled), path)


def grids(folder):
    return open_records(folder / "records").sampling.grids


def by_hand(folder, layout, micro_batches=1):
    """Trains with two programs that share nothing: all variables are assigned before each step."""
    small, large = grids(folder)
    steps, built = {}, {}
    for grid in (small, large):
        steps[grid] = TrainingStep(TASK, Adam(0.01), grid, 2, micro_batches, "float64")
        built[grid] = steps[grid].build(layout)
    values, state, results = None, {}, []
    batches = Records().training_batches(folder / "records", 2, seed=0)
    for _, batch in zip(range(STEPS), batches):
        grid = tuple(batch["image"].shape[1:4])
        program = built[grid].program
        if values is not None:
            for name, variable in program.variables.items():
                variable.assign(state[name])
            program.step.assign(values)
        (inputs,) = steps[grid].split(iter([{"image": batch["image"], "labels": batch["labels"], "cases": []}]))
        del inputs["cases"]
        inputs = {"parts": [cast(part) for part in inputs["parts"]]} if micro_batches > 1 else cast(inputs)
        results.append((grid, float(built[grid](**inputs)["loss"])))
        values, state = program.step.numpy(), {name: v.numpy() for name, v in program.variables.items()}
    return results, state


def cast(inputs):
    return {name: np.asarray(value, np.float64 if name == "image" else np.int32) for name, value in inputs.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "micro_batches"),
    [
        (mi.Layout(), 1),
        (UNEVEN, 1),
        (UNEVEN, 2),
    ],
)
def test_training_equals_separate_programs(folder, tmp_path, layout, micro_batches):
    mi.jobs.train(**settings(folder), model_dir=tmp_path, layout=layout, micro_batches=micro_batches)
    expected, variables = by_hand(folder, layout, micro_batches)
    assert {grid for grid, _ in expected} == {*grids(folder)}
    np.testing.assert_allclose(read_losses(tmp_path), [loss for _, loss in expected], rtol=1e-9)
    # the same losses under every layout
    np.testing.assert_allclose(read_losses(tmp_path), read_losses(folder / "run"), rtol=1e-8)
    program = TrainingStep(TASK, Adam(0.01), grids(folder)[0], 2, 1, "float64").build().program
    mi.training.checkpoints.checkpoints.Checkpoints(tmp_path, program).restore()
    assert int(program.step) == STEPS
    for name, variable in program.variables.items():
        np.testing.assert_allclose(variable.numpy(), variables[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(folder, tmp_path):
    mi.jobs.train(**settings(folder, num_steps=2), model_dir=tmp_path)
    mi.jobs.train(**settings(folder), model_dir=tmp_path)
    assert read_losses(tmp_path) == read_losses(folder / "run")


@pytest.mark.slow
def test_a_run_shows_each_grid(folder, tmp_path, caplog, capsys):
    with caplog.at_level(logging.INFO):
        mi.jobs.train(**settings(folder, num_steps=1), model_dir=tmp_path)
    lines = [line for line in caplog.messages if line.startswith("grid ")]
    assert len(lines) == 2
    small, large = (mi.layout.format_shape(zip("xyz", grid, strict=True)) for grid in grids(folder))
    assert lines[0].startswith(f"grid {large}: 1 of 4 cases, ")
    assert lines[1].startswith(f"grid {small}: 3 of 4 cases, ")
    assert all("per device by the memory model, built in " in line for line in lines)
    facts = json.loads((tmp_path / "run.json").read_text())
    assert (facts["resolution"], facts["spacing"]) == (f"{small}|{large}", "40,40,40")
    mi.jobs.train(**settings(folder, num_steps=1), model_dir=tmp_path / "dry", dry_run=True)
    printed = capsys.readouterr().out
    for grid in grids(folder):
        assert "batch:2 " + " ".join(f"{name}:{size}" for name, size in zip("xyz", grid)) in printed
    assert not (tmp_path / "dry").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("mesh_shape", "mesh_impl"), [("rows:2", "placement"), ("rows:3", "stacked")])
def test_the_modeled_memory_is_that_of_explain(folder, mesh_shape, mesh_impl):
    step, layout = TrainingStep(TASK, Adam(0.01), grids(folder)[1], 2), mi.Layout.parse(mesh_shape, "x:rows")
    options = {"resolution": step.sizes, "optimizer": Adam(0.01), "batch_size": 2, "layout": layout}
    explained = mi.jobs.explain(task=TASK, mesh_impl=mesh_impl, **options)
    assert modeled_memory(step, step.build(layout, mesh_impl).network) == explained.plan.memory


@pytest.mark.parametrize(
    ("layout", "difference"),
    [
        (mi.Layout.parse("rows:4", "y:rows"), 0),  # two processors share a process
        # Half of what the devices of both processes hold together; the peak is not at the same operation.
        (mi.Layout.parse("slabs:4,rows:2", "x:slabs,y:rows", "slabs"), 0.05),
    ],
)
def test_the_modeled_memory_of_one_of_several_processes(layout, difference):
    step = TrainingStep(TASK, Adam(0.01), (32, 16, 16), 2)
    with runtime.rehearse(Processes([("localhost", 5000 + i) for i in range(2)], 0)):
        found = modeled_memory(step, step.build(layout).network)
    turns = turn_costs(step, layout) if layout.sequential else None
    planned = make_plan(step.trace(layout), layout, 2, mesh_impl="collective", turns=turns)
    assert found == pytest.approx(planned.memory, rel=difference)


@pytest.mark.slow
def test_held_out_cases_of_several_grids_are_scored(folder, tmp_path):
    # fold 1 trains on the small grid alone, and holds out the large one
    (tmp_path / "splits.json").write_text(json.dumps([{"train": ["0", "1"], "val": ["2", "3"]}]))
    data = TrainingData(folder / "records", fold=0, splits_file=tmp_path / "splits.json")
    run = tmp_path / "run"
    mi.jobs.train(**settings(folder, data=data, num_steps=2, eval_every=2, micro_batches=2), model_dir=run)
    (row,) = read_rows(run / "eval/scores.csv")
    overlaps, held_out = [], []
    manifest = open_records(folder / "records")
    for key in ("2", "3"):
        sampling = manifest.case_sampling(key)
        predict = predictor(task=TASK, sizes=sampling.grid, model_dir=run, dtype="float64")
        record = read_record(record_path(folder / "records", key))
        image = record.network_input(manifest.intensities)
        overlaps.append(label_overlaps(predict(image).argmax(-1), record.labels))
        held_out.append(sampling.grid)
    assert held_out == [grids(folder)[1], grids(folder)[0]]
    for name in ("liver", "lesion"):
        assert float(row[name]) == pytest.approx(dice_per_case(overlaps, name), abs=1e-6)
    assert np.isfinite(float(row["loss"]))


@pytest.mark.slow
def test_the_batches_of_the_held_out_loss_have_one_grid_each(folder):
    batches = list(HeldOutRecords(progress=False).loss_batches(folder / "records", batch_size=2, sizes=None))
    assert [batch["cases"] for batch in batches] == [["0", "1"], ["3", "0"], ["2", "2"]]
    assert [tuple(batch["image"].shape[1:4]) for batch in batches] == [grids(folder)[0]] * 2 + [grids(folder)[1]]


@pytest.mark.slow
def test_evaluate_and_predict_choose_the_grid_of_each_case(folder, tmp_path):
    shared = {"task": TASK, "model_dir": folder / "run", "dtype": "float64", "progress": False}
    scores = mi.jobs.evaluate(**shared, input_dir=folder / "cases", output_dir=tmp_path / "scores")
    assert [score.key for score in scores] == ["0", "1", "2", "3"]
    manifest = open_records(folder / "records")
    for key in ("1", "2"):
        grid = manifest.case_sampling(key).grid
        one, other = tmp_path / f"one-{key}.nii.gz", tmp_path / f"other-{key}.nii.gz"
        volume = folder / f"cases/volume-{key}.nii.gz"
        mi.jobs.predict(**shared, input=volume, output=one, layout=UNEVEN)
        mi.jobs.predict(**shared, input=volume, output=other, resolution=grid)
        assert one.read_bytes() == other.read_bytes()
        assert one.read_bytes() == (tmp_path / f"scores/predictions/segmentation-{key}.nii.gz").read_bytes()


@pytest.mark.slow
def test_a_case_larger_than_every_grid_is_cropped(folder, tmp_path, caplog):
    import nibabel

    case = find_cases(folder / "cases")[2]
    image = nibabel.load(case.volume)
    nibabel.save(
        nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine @ np.diag([2.0, 1, 1, 1])), tmp_path / "big.nii"
    )
    shared = {"task": TASK, "model_dir": folder / "run", "dtype": "float64", "progress": False}
    mi.jobs.predict(**shared, input=tmp_path / "big.nii", output=tmp_path / "out.nii.gz")
    large = mi.layout.format_shape(zip("xyz", grids(folder)[1], strict=True))
    (warning,) = [message for message in caplog.messages if "is larger than the box" in message]
    assert f"the volume is larger than the box {large} of 40,40,40 mm; the first" in warning


@pytest.mark.slow
def test_a_given_resolution_must_be_that_of_the_records(folder, tmp_path):
    text = "|".join(mi.layout.format_shape(zip("xyz", grid, strict=True)) for grid in grids(folder))
    mi.jobs.train(**settings(folder, num_steps=1), model_dir=tmp_path / "run", resolution=text)
    assert read_losses(tmp_path / "run") == read_losses(folder / "run")[:1]
    with pytest.raises(mi.DataError, match=r"the records have the grids .*, but resolution is x:8,y:8,z:8. Fix: leave"):
        mi.jobs.train(**settings(folder), model_dir=tmp_path / "other", resolution=8)
    with pytest.raises(mi.ConfigError, match=r"a batch of 2 cannot be split into 3 equal micro-batches"):
        mi.jobs.train(**settings(folder), model_dir=tmp_path / "other", micro_batches=3)


@pytest.mark.slow
def test_micro_batches_have_the_cases_of_the_batch(folder):
    data = TrainingData(folder / "records")
    step = TrainingStep(TASK, Adam(), (8, 8, 8), 2, dtype="float64")
    cases = []
    for count in (1, 2):
        parted = dataclasses.replace(step, micro_batches=count)
        buckets = open_buckets(data, parted, None)
        regions = {each.sizes: whole_inputs(each.part_inputs) for each in buckets.steps}
        batches = bucket_batches(data, buckets, regions)(3)
        cases.append([next(batches)["cases"] for _ in range(6)])
    assert cases[0] == cases[1]
