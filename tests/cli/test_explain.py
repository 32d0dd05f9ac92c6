"""The output and the errors of explain and search."""

import json
import re
import resource
import time

import pytest

from tests import commands

SMALL = ["--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=2", "--resolution", "32"]
TWO_BY_TWO = ["--mesh_shape", "rows:2,cols:2", "--layout", "x:rows,y:cols"]


@pytest.fixture
def run(capsys):
    def run(*words):
        return commands.run(*words), *capsys.readouterr()

    return run


def test_the_papers_job_at_512_is_explained_in_seconds_without_memory_for_it(run, tmp_path):
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    picture = tmp_path / "layout.png"
    words = ["--resolution", "512", "--batch_size", "32", "--hardware", "h200", "--picture", str(picture)]
    code, out, _ = run("explain", "--gin_file", "unet3d_lits", *words)
    assert code == 0
    assert time.process_time() - began < 60, "takes a few seconds of CPU time"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20, (
        "takes more memory, in KiB, than one slice"
    )
    assert "512 processors on 512 devices" in out
    assert out.count(": fits in 75% of h200's 131.0 GiB") == 2
    assert "assumed: 297 TFLOP/s in bfloat16 (30% of the data sheet), 3,600 GB/s of memory (75%)" in out
    assert "450 GB/s sent per device" in out
    assert (
        "unet3d/up0/conv0/conv0    batch:32,x:512,y:512,z:512,filters:32   16 x 32 x 32 x 512 x 32  x:1,1 y:1,1" in out
    )
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_layout_that_does_not_fit(run):
    code, out, _ = run("explain", "--gin_file", "unet3d_lits_1gpu", "--resolution", "512", "--hardware", "l4")
    assert code == 0
    assert out.count(": does not fit in 75% of l4's 22.4 GiB") == 2
    assert "a batch of 32 in 32 micro-batches, with an extra forward pass for sums over the batch" in out


@pytest.mark.slow
def test_uneven_slices_are_reported(run):
    words = [*SMALL[:2], "--resolution", "36", "--mesh_shape", "rows:16", "--layout", "x:rows"]
    code, out, _ = run("explain", *words)
    assert code == 0
    lines = out.splitlines()
    assert lines[3:5] == [
        "  x: 36 over rows:16 -> slices of 3, 4 of 16 empty",
        "  x: 18 over rows:16 -> slices of 2, 7 of 16 empty",
    ]
    assert out.count("notice: ") == 2
    assert "Fix: use x:38 instead of 36, or use fewer processors, or gather coarse levels with gather_below." in out
    assert "3 is not 2 x 2, so halos grow along rows, up to 9 voxels. Fix: use x:32 or x:61, or use fewer" in out
    report = json.loads(run("explain", *words, "--json")[1])
    assert report["uneven"]["slices"]["x:36"] == {"parts": 16, "size": 3, "last": 3, "empty": 4}
    assert report["uneven"]["better_sizes"] == {"x": 38}
    _, out, _ = run("train", "--data_dir", "none", "--model_dir", "none", "--dry_run", *words)
    assert out.splitlines()[2].startswith("uneven slices: ")
    assert out.count("\nx: 36 over rows:16 -> slices of 3, 4 of 16 empty\n") == 1


PATCH = [*SMALL[:2], "--resolution", "x:128,y:64,z:32", "--patch", "32", "--spacing", "2"]


def test_the_step_of_a_patch_and_the_prediction_of_the_image(run):
    code, out, _ = run("explain", *PATCH, "--hardware", "a100", "--batch_size", "2")
    assert code == 0
    whole = out.splitlines()
    assert whole[1] == "patch: 32 x 32 x 32 of 128 x 64 x 32 voxels, 12% of the image; 21 windows cover it"
    assert whole[2] == "receptive field: 18 x 18 x 18 of 32 x 32 x 32 voxels, 36 x 36 x 36 of 64 x 64 x 64 mm"
    assert whole[3].startswith("  a voxel of the output sees 18 x 18 x 18 of 128 x 64 x 32 voxels, 36 x 36 x 36 of 256")
    assert "32 of 128 voxels along x. Structures further apart than 64 mm along x are never seen together" in whole[4]
    assert "batch:2,x:32,y:32,z:32,filters:2" in run("explain", *PATCH, "--batch_size", "2", "--verbose")[1]
    at = whole.index("prediction of one image")
    assert whole[at + 1].startswith("  21 windows, step 0.5  ")
    assert whole[at + 2].startswith("  whole image at once   ")
    assert all(": fits in 75% of a100's 74.5 GiB" in line for line in whole[at + 1 : at + 3])
    assert whole[at + 3].endswith(": 3.0 MiB = 4 bytes x 3 labels x 262,144 voxels")
    for command in ("explain", "search"):
        words = ["--num_devices", "2", "--hardware", "a100"] if command == "search" else []
        assert run(command, *PATCH, *words)[0] == 0


def test_the_json_of_a_patch(run):
    split = ["--mesh_shape", "rows:2,cores:3", "--layout", "x:rows,batch:cores", "--batch_size", "3"]
    report = json.loads(run("explain", *PATCH, *split, "--hardware", "a100", "--json")[1])
    field, patch = report["receptive_field"], report["patch"]
    assert (field["image"], field["patch"]) == ({"x": 128, "y": 64, "z": 32}, dict.fromkeys("xyz", 32))
    assert (field["seen"], field["narrow"], field["cut"]) == (dict.fromkeys("xyz", 18), [], ["x"])
    assert len(field["notices"]) == 1
    assert (patch["windows"], patch["window_step"], patch["share"]) == (21, 0.5, 0.125)
    windows, at_once = (report["prediction"][name] for name in ("windows", "whole"))
    assert windows["passes"] == 7  # the layout spreads three windows over its processors
    assert windows["memory_a_device"] < windows["memory_a_process"] < 1 << 29
    assert (windows["temporary_files"], at_once["memory_a_process"]) == (0, None)
    assert 0 < at_once["seconds"] < windows["seconds"] < 7 * report["seconds"]["total"]
    report = json.loads(run("explain", *PATCH[:-4], "--json")[1])
    assert report["patch"] is None
    assert report["prediction"] is None
    assert report["receptive_field"]["patch"] is None
    *words, _ = PATCH[:-1]
    bound = [word for word in words if word not in ("--patch", "32")]
    report = json.loads(run("explain", *bound, "--gin.train.patch='x:64,y:32,z:32'", "--json")[1])
    assert report["patch"]["voxels"] == [64, 32, 32]


def test_the_prediction_of_a_large_image_in_turns(run):
    turns = ["--mesh_shape", "slabs:8", "--layout", "x:slabs", "--sequential", "slabs"]
    words = [*SMALL[:2], "--resolution", "x:512,y:256,z:256", *turns, "--predict"]
    at = (lines := run("explain", *words)[1].splitlines()).index("prediction of one image")
    assert lines[at + 1].startswith("  whole image in 8 turns  ")
    assert lines[at + 2].endswith("384.0 MiB = 4 bytes x 3 labels x 33,554,432 voxels")
    report = json.loads(run("explain", *words, "--json")[1])
    found = report["prediction"]["whole"]
    assert report["prediction"]["windows"] is None
    assert report["prediction"]["all_probabilities"] == 384 << 20
    # The image lies in two files, as blocks and for the network.
    assert 256 << 20 < found["temporary_files"] < report["turns"]["waiting"] + (256 << 20)
    assert found["memory_a_device"] < report["memory_a_device"]["kept"]["total"] - (128 << 20)
    assert found["memory_a_process"] > found["memory_a_device"]


def test_json(run, tmp_path):
    picture = str(tmp_path / "a.png")
    code, out, err = run("explain", *SMALL, *TWO_BY_TWO, "--hardware", "a100", "--json", "--picture", picture)
    assert code == 0
    assert picture in err
    report = json.loads(out)
    assert (report["processors"], report["devices"], report["dtype"]) == (4, 4, "float32")
    assert set(report["memory_a_device"]) == {"kept", "recomputed"}
    assert report["memory_a_device"]["kept"]["fits"] is True
    of_ops = {
        end: sum(op["halo_bytes_sent"][end] for op in report["operations"] if op["phase"] == "backward")
        for end in ("interior", "border")
    }
    assert report["step"]["backward"]["halo_bytes_sent"] == of_ops
    assert 0 < report["seconds"]["exchange_share"] < 1


def test_weights_are_the_same_in_the_table_and_in_json(run):
    """The 19,071,459 weights take 72.8 MiB in float32; the two slots of Adam are never sent."""
    words = ["explain", "--gin_file", "unet3d_tpu_256"]
    _, out, _ = run(*words)
    report = json.loads(run(*words, "--json")[1])["step"]
    assert report["weight_bytes_read_a_device"] == 4 * 19_071_459
    assert report["optimizer_bytes_read_a_device"] == 0
    assert "  each device receives 72.8 MiB of weights\n" in out


def test_verbose_shows_every_operation(run):
    _, short, _ = run("explain", *SMALL, *TWO_BY_TWO)
    _, long, _ = run("explain", *SMALL, *TWO_BY_TWO, "--verbose")
    assert "\nverbose lists every operation\n" in short
    assert " others" in short
    assert "unet3d/pool1" not in short
    assert "unet3d/pool1" in long
    assert "the optimizer" in long
    assert (
        "Set hardware, for example h200, to estimate the step time and to check whether the memory suffices." in short
    )


def test_one_processor_exchanges_nothing(run):
    code, out, _ = run("explain", *SMALL, "--gin_file", "unet3d_demo", "--gin_file", "single")
    assert code == 0
    assert out.startswith("one processor: 1 processor on 1 device\n")
    assert "an interior processor sends 0 bytes, a corner processor 0 bytes, in 0 exchanges; 0 all-reduces" in out


def test_processors_in_turn(run):
    words = ["explain", *SMALL, "--mesh_shape", "slabs:4", "--layout", "x:slabs", "--sequential", "slabs"]
    code, out, _ = run(*words, "--hardware", "l4")
    assert code == 0
    report = json.loads(run(*words, "--hardware", "l4", "--json")[1])
    turns, memory, seconds = report["turns"], report["memory_a_device"], report["seconds"]
    assert turns["memory"] == turns["inputs"] + turns["tensors"] + turns["reads"]
    assert turns["inputs"] == 32**3 * 8  # an image and labels
    assert [*memory] == ["kept"]
    assert memory["kept"]["peak_activations"] == turns["memory"]
    assert seconds["offload"] == (turns["written"] + turns["read"]) / report["hardware"]["offload"]
    assert out.startswith("mesh slabs:4, layout x:slabs: 4 processors on 1 device\n")
    assert "\nprocessors along slabs take 4 turns\n  a turn needs " in out
    assert " wait in offload_dir or in host memory; a step writes " in out
    assert re.search(r"activations kept .* of a turn: fits in 75% of l4's 22\.4 GiB\n", out)
    assert re.search(r" per step on l4, 0% of it exchange: .*, offload [\d.]+ ms\n", out)
    assert re.search(r"\nstart-up \(estimate\) +turns\n", out)


@pytest.mark.slow
def test_a_dry_run_of_train_prints_the_same(run):
    _, explained, _ = run("explain", *SMALL, *TWO_BY_TWO)
    code, out, _ = run("train", "--data_dir", "none", "--model_dir", "none", "--dry_run", *SMALL, *TWO_BY_TWO)
    assert code == 0
    assert out.startswith(explained.partition("Next: ")[0].rstrip("\n"))


def test_all_faults_are_reported_at_once(run):
    layout = "x:rows,y:rows,classes:cols"
    code, out, err = run("explain", "--resolution", "60", "--mesh_shape", "rows:8,cols:3", "--layout", layout)
    assert (code, out) == (2, "")
    assert "cannot split both 'x' (size 60) and 'y' (size 60) over 'rows'" in err
    assert "cannot split 'classes' (size 3) over 'cols' (size 3)" in err


def test_slices_of_any_size(run):
    words = ["--mesh_shape", "rows:2,cols:4", "--layout", "x:rows,y:cols"]
    code, out, _ = run("explain", *SMALL, "--resolution", "x:13,y:10,z:9", *words)
    assert code == 0
    slices = {line.split()[0]: line.split("  ")[1:] for line in out.splitlines() if line.startswith("unet3d")}
    assert "1 x 7 x 3 x 9 x 2" in slices["unet3d/down0/conv0/conv0"]
    assert "1 x 4 x 2 x 5 x 4" in slices["unet3d/down1/conv0/conv0"]  # of 7, 5 and 5 voxels


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--hardware", "h20"],
            "mtf-imaging: hardware 'h20' is unknown. Did you mean 'h200'? Known: h200, h100, a100, a100_40gb, v100, "
            "l40s, a10, l4, t4, rtx4090, tpu_v2, tpu_v3. Fix: use one of these, or define your own hardware by its "
            "name, memory (bytes), flops and flops_float32 (operations per second), link, bandwidth and network (bytes "
            "per second) and latency (seconds).\n"
            "On the command line: --hardware (for instance h200, or a gin file; see docs/guides/gpus.md).\n",
        ),
        (["--hardware", "nosuch.gin"], "there is no gin file 'nosuch.gin'"),
        (["--mesh_shape", "rows:8", "--num_devices", "4"], "mesh rows:8 has 8 processors, but --num_devices is 4."),
        (["--mesh_shape", "rows:2", "--layout", "x:rows,y:rows"], "cannot split both 'x' (size 32) and 'y' (size 32)"),
        (["--mesh_shape", "rows:2", "--layout", "x:rows,x:rows"], "tensor dimension 'x' has 2 rules"),
        (["--mesh_shape", "rows:0"], "the size of 'rows' must be a positive integer such as 2, not '0'"),
        (["--mesh_shape", "rows:-2"], "the size of 'rows' must be a positive integer such as 2, not '-2'"),
        (["--mesh_shape", "rows:1.5"], "the size of 'rows' must be a positive integer such as 2, not '1.5'"),
        (
            ["--hardware", "l4", "--price_per_hour", "0"],
            "--price_per_hour must be a number above 0, not 0.0.\n",
        ),
        (["--hardware", "l4", "--price_per_hour", "-1"], "--price_per_hour must be a number above 0, not -1.0."),
        (["--hardware", "l4", "--price_per_hour", "nan"], "--price_per_hour must be a number above 0, not nan."),
        (
            ["--patch", "64"],
            "patch x:64,y:64,z:64 does not lie within images of x:32,y:32,z:32 voxels. Fix: use a patch of at most "
            "x:32,y:32,z:32, or leave patch out to train on whole images.\nOn the command line: --patch",
        ),
        (["--patch", "8,8"], "'8,8'"),
        (["--picture", "layout.jpg"], "--picture layout.jpg: only PNG files are written. Fix: --picture layout.png"),
    ],
)
def test_errors_are_reported(run, words, message):
    code, out, err = run("explain", *SMALL, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_custom_hardware(run, tmp_path):
    lines = [
        *("hardware.name = 'mine'", "hardware.memory = 1e9", "hardware.flops = 2e12"),
        *("hardware.flops_float32 = 1e12", "hardware.link = 1e9", "hardware.share = 0.5"),
    ]
    mine = tmp_path / "mine.gin"
    mine.write_text("\n".join(lines))
    code, out, _ = run("explain", *SMALL, *TWO_BY_TWO, "--hardware", str(mine))
    assert code == 0
    assert "assumed: 0.5 TFLOP/s in float32 (50% of the data sheet), 750 GB/s of memory (75%)" in out
    assert "1 GB/s sent per device, 20 us per exchange" in out
    for change, message in (
        (lines[:4], "does not bind hardware.link. Fix"),
        ([*lines, "hardware.memory = -1"], "hardware mine: memory must be a number above 0, not -1."),
        ([*lines, "hardware.share = 3"], "hardware mine: share must be a number above 0 and at most 1, not 3. Fix: "),
        ([*lines, "hardware.speed = 3"], "doesn't have a parameter named 'speed'"),
        ([*lines, "hardware.name = 'm"], "gin file "),
    ):
        mine.write_text("\n".join(change))
        code, _, err = run("explain", *SMALL, "--hardware", str(mine))
        assert code == 2
        assert message in err


@pytest.mark.slow
def test_the_training_is_computed_from_the_time_per_step(run):
    words = ["--gin_file", "deeplab_voc", "--hardware", "h100", "--price_per_hour", "2.5"]
    code, out, _ = run("explain", *words)
    assert code == 0
    report = json.loads(run("explain", *words, "--json")[1])
    recipe, seconds = report["recipe"], report["seconds"]["total"]
    hours = 50_000 * seconds / 3600
    assert recipe["step_time"] == "computed"
    assert recipe["devices"] == report["devices"] == report["processors"]
    assert recipe["steps_per_second"] == pytest.approx(1 / seconds)
    assert recipe["images_per_second"] == pytest.approx(report["batch_size"] / seconds)
    assert (recipe["num_steps"], recipe["price_per_hour"]) == (50_000, 2.5)
    assert recipe["hours"] == pytest.approx(hours)
    assert recipe["cost"] == pytest.approx(hours * report["devices"] * 2.5)
    assert recipe["cost_per_1000_steps"] == pytest.approx(recipe["cost"] / 50)
    assert "\n\ntraining (computed from the time per step, not measured)\n" in out
    assert re.search(r"\n  50,000 steps: [\d.]+ h on \d+ devices?, [\d.]+ device-hours\n", out)
    assert re.search(r"\n  cost at 2.50 per device-hour: [\d.,]+ for 50,000 steps, [\d.,]+ per 1,000 steps\n", out)


def test_without_hardware_no_training_is_computed(run):
    _, out, _ = run("explain", *SMALL)
    assert "training (" not in out
    assert json.loads(run("explain", *SMALL, "--json")[1])["recipe"] is None
    code, out, err = run("explain", *SMALL, "--price_per_hour", "2")
    assert (code, out) == (2, "")
    assert "price_per_hour = 2 needs hardware, because the cost follows from the step time of a kind of device." in err
    assert "On the command line: --hardware" in err


def test_one_device_for_all_processors_is_paid_once(run):
    words = [*SMALL, *TWO_BY_TWO, "--hardware", "l4", "--json"]
    devices = [
        json.loads(run("explain", *words, "--mesh_impl", mesh_impl)[1])["recipe"]["devices"]
        for mesh_impl in ("placement", "collective", "stacked")
    ]
    assert devices == [4, 4, 1]


@pytest.mark.parametrize("steps", ["", "num_steps = 360\ntrain.num_steps = %num_steps\n"])
def test_a_job_may_lack_the_number_of_steps(run, tmp_path, steps):
    job = tmp_path / "job.gin"
    lines = ("job.task = @LiverTumorSegmentation()", "LiverTumorSegmentation.network = @UNet3D()")
    job.write_text("\n".join(["import mtf_imaging.models.unet3d", *lines, "train.optimizer = @Adam()\n"]) + steps)
    words = ["--gin_file", str(job), *SMALL, "--hardware", "l4", "--price_per_hour", "3"]
    code, out, err = run("explain", *words)
    assert code == 0, err
    assert " steps per second, " in out
    assert (" 360 steps" in out, " h on " in out) == (bool(steps), bool(steps))
    assert "per 1,000 steps" in out
    assert json.loads(run("explain", *words, "--json")[1])["recipe"]["num_steps"] == (360 if steps else None)


@pytest.mark.slow
def test_search_computes_the_training_with_the_first_layout(run):
    words = ["--hardware", "l4", *SMALL, "--batch_size", "2", "--price_per_hour", "3"]
    code, out, _ = run("search", "--num_devices", "4", *words)
    assert code == 0
    layout = re.search(r"^To use the first layout: (.*)$", out, re.MULTILINE)[1].split()
    first = out.partition("training with the first layout (computed")[2].splitlines()[1:4]
    explained = run("explain", *words, *layout)[1].partition("training (computed")[2].splitlines()[1:4]
    assert first == explained
    assert "400 steps: " in first[1]
    code, out, _ = run("search", "--num_devices", "2", *words, "--memory_limit", "0.02", "--max_resolution")
    assert code == 0
    assert " h on 2 devices" in out


@pytest.mark.slow
def test_search_ranks_layouts_and_prints_the_flags_of_the_first(run):
    words = ["--num_devices", "4", "--hardware", "h200", *SMALL, "--batch_size", "2"]
    code, out, _ = run("search", *words)
    assert code == 0
    assert "4 x h200, 98.2 GiB of memory for tensors on each, 32 x 32 x 32 voxels, batch 2, float32:" in out
    (flags,) = re.findall(r"^To use the first layout: (.*)$", out, re.MULTILINE)
    flags = flags.split()
    assert flags[:1] + flags[2:3] == ["--mesh_shape", "--layout"]
    assert run("explain", *SMALL, "--batch_size", "2", *flags)[0] == 0
    code, out, _ = run("search", *words, "--top", "1", "--memory_limit", "0.001")
    assert code == 0
    assert "does not fit" in out
    assert re.search(
        r"No layout fits: the smallest needs [\d.]+ MiB of each device, and h200 has 1.0 MiB for it\. Fix: more", out
    )
    code, out, _ = run("search", *words, "--num_devices", "31")
    assert "No layout keeps 31 processors busy. Fix: fewer --num_devices or a higher --resolution." in out


@pytest.mark.slow
def test_search_finds_the_largest_cube(run):
    network = SMALL[:2]
    code, out, _ = run(
        "search", "--num_devices", "2", "--hardware", "h200", "--memory_limit", "0.05", *network, "--max_resolution"
    )
    assert code == 0
    size = int(out.split("up to ")[1].split("^3")[0])
    flags, turn_flags = (found.split() for found in re.findall(r"^To train on it: (.*)$", out, re.MULTILINE))
    assert flags[:2] == ["--resolution", str(size)]
    report = json.loads(run("explain", *network, *flags, "--json")[1])
    total = report["memory_a_device"]["recomputed" if report["recompute"] else "kept"]["total"]
    assert total <= 0.05 * 2**30
    larger = json.loads(run("explain", *network, *flags, "--resolution", str(size + 16), "--json")[1])
    assert all(kind["total"] > 0.05 * 2**30 for kind in larger["memory_a_device"].values())
    in_turns = json.loads(run("explain", *network, *turn_flags, "--json")[1])
    assert int(turn_flags[1]) > size
    assert in_turns["memory_a_device"]["kept"]["total"] <= 0.05 * 2**30
    assert f"up to {turn_flags[1]}^3 voxels in {in_turns['turns']['turns']} turns" in out


def test_search_requires_devices_and_a_positive_limit(run):
    assert "search needs --num_devices and --hardware." in run("search")[2]
    wrong = run("search", "--num_devices", "2", "--hardware", "l4", "--memory_limit", "0")
    assert "--memory_limit must be a number above 0, not 0.0." in wrong[2]


def test_the_picture_shows_the_halo_of_the_operation_that_reads_the_image(run, tmp_path, monkeypatch):
    """Also if the first convolution has a stride, so that no result is as large as the image."""
    drawn = []
    monkeypatch.setattr("mtf_imaging.planner.render.picture.write_picture", lambda path, picture: drawn.append(picture))
    assert run("explain", "--gin_file", "classify_4way", "--picture", str(tmp_path / "a.png"))[0] == 0
    assert sum(drawn[0].halo["height"]) > 0


@pytest.mark.parametrize("job", [(), ("--gin_file", "unet3d_demo")], ids=["no job", "job"])
@pytest.mark.parametrize("command", ["explain", "bench"])
def test_a_folder_without_a_run_is_named(run, tmp_path, command, job):
    code, _, err = run(command, "--model_dir", str(tmp_path), "--resolution", "32", *job)
    assert code == 2
    assert f"--model_dir {tmp_path}: has no config.gin, the configuration of a run. Fix: give the folder" in err
