"""`mtf-imaging plan`: the gin file that it writes is ready to convert and to train."""

import contextlib
import io
import shlex

import nibabel
import numpy as np
import pytest
from PIL import Image

from mtf_imaging.cli.commands.plan import parse_memory
from mtf_imaging.data.description.dataset_json import write_description
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.records.manifest import read_manifest
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.errors import ConfigError
from tests.commands import run

DEVICES = ["--num_devices", "2", "--hardware", "t4"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    write_phantom(folder / "raw", 2, seed=1, kind="brain")
    for path in (folder / "raw").glob("*/*.nii.gz"):  # every third voxel, so that the planned network is quick to build
        nibabel.load(path).slicer[::3, ::3, ::3].to_filename(path.with_name(f"small-{path.name}"))
        path.with_name(f"small-{path.name}").replace(path)
    output = folder / "plan.gin"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run("plan", "--data_dir", folder / "raw", "--workers", 1, *DEVICES, "--output", output) == 0
    (folder / "table.txt").write_text(printed.getvalue())
    return folder


def commands(folder):
    """Returns the commands in the comments at the end of the gin file."""
    lines = [line.removeprefix("#   ") for line in (folder / "plan.gin").read_text().splitlines()]
    found = [shlex.split(line) for line in lines if line.startswith("mtf-imaging ")]
    return {words[1]: words[1:] for words in found}


def test_every_choice_has_a_reason(planned):
    lines = (planned / "plan.gin").read_text().splitlines()
    reasons = {
        "setup.spacing": "# The median voxel size of the cases.",
        "setup.resolution": "# The smallest box of",
        "setup.mesh_shape": "# The fastest for 2 devices.",
        "unet3d.UNet3D.depth": "# The coarsest level has 4 x 5 x 4 voxels; pools leave",
        "unet3d.UNet3D.kernel_sizes": "# No axis has voxels that are twice as long",
        "unet3d.UNet3D.pool_sizes": "# Sizes along x, y and z between two levels: 2 where",
        "unet3d.UNet3D.deep_supervision": "# The number of coarser levels with logits",
        "job.dtype": "# Bfloat16 is not faster on t4.",
        "train.num_steps": "# --num_steps changes the steps and",
        "Augmentation.flips": "# No label names a side",
        "PolyDecay.initial": "# The default of Adam",
    }
    for name, reason in reasons.items():
        (index,) = [number for number, line in enumerate(lines) if line.startswith(f"{name} =")]
        above = lines[:index]
        comment = next(line for line in reversed(above) if not line.startswith("#   "))
        assert comment.startswith(reason), name
    assert max(len(line) for line in lines if not line.startswith("#   mtf-imaging")) < 120


def test_explain_reads_the_plan_without_data(planned, capsys):
    text = (planned / "plan.gin").read_text()
    assert run("explain", "--gin_file", planned / "plan.gin", "--hardware", "t4") == 0
    out = capsys.readouterr().out
    memory = text.partition("# Memory: ")[2].partition(" per device")[0]
    kept = "recomputed" if "recompute = True" in text else "kept"
    (line,) = [line for line in out.splitlines() if line.strip().startswith(f"activations {kept}")]
    assert memory in line
    (field,) = (line for line in out.splitlines() if line.startswith("receptive field: "))
    assert field.endswith(" mm")
    (sees,) = (line for line in (planned / "table.txt").read_text().splitlines() if line.startswith("sees "))
    assert " ".join(sees.split()).startswith("sees " + field.removeprefix("receptive field: ")[:20])
    assert "2 processors on 2 devices" in out


@pytest.mark.slow
def test_the_commands_of_the_plan_convert_and_build_the_training(planned, capsys):
    named = commands(planned)
    assert set(named) == {"convert", "train", "cross_validate"}
    assert run(*named["convert"], "--workers", 1) == 0
    manifest = read_manifest(planned / "records")
    text = (planned / "plan.gin").read_text()
    assert f"setup.resolution = '{format_grid(manifest.sampling.grid)}'" in text
    capsys.readouterr()
    assert run(*named["train"], "--mesh_impl", "stacked", "--dry_run", "--gin.UNet3D.base_filters=2") == 0
    assert not (planned / "run").exists() or not list((planned / "run").glob("*.index"))


def test_planning_again_reads_no_case(planned, capsys, monkeypatch):
    monkeypatch.setattr("mtf_imaging.data.fingerprint.open_image_source", None)
    output = planned / "again.gin"
    words = ["plan", "--data_dir", planned / "raw", "--num_devices", 1, "--hardware", "h200", "--output", output]
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert (
        "crop         to nonzero voxels: the box of the nonzero voxels has 60% of the median case, less than 75%" in out
    )
    assert "volume       30 x 36 x 32 voxels of 4.397,4.532,4.535 mm" in out
    assert "layout       no split on 1 x h200" in out
    assert "regions whole_tumor, tumor_core, enhancing_tumor" in out
    assert " convert --input_dir " in out.splitlines()[-1]
    assert out.splitlines()[-1].endswith(" --crop_to_nonzero")


def test_a_plan_on_patches_is_a_job_on_patches(planned, capsys):
    output = planned / "patches.gin"
    words = ["plan", "--data_dir", planned / "raw", *DEVICES, "--patches", "always", "--output", output]
    assert run(*words) == 0
    out, text = capsys.readouterr().out, output.read_text()
    assert "train.patch = 'x:30,y:32,z:32'" in text
    assert "setup.resolution = 'x:30,y:36,z:32'" in text
    assert "# Patches: as the setting patches demands." in text
    assert "# Planned: patches of 30 x 32 x 32 of 30 x 36 x 32 voxels of 4.397,4.532,4.535 mm; 16 filters" in text
    assert "# Instead of: whole volumes of 30 x 36 x 32 voxels of 4.397,4.532,4.535 mm; 32 filters" in text
    assert "\npatch        30 x 32 x 32 voxels, 89% of a volume; 2 windows cover a volume\n" in out
    assert "\ninstead of   whole volumes of 30 x 36 x 32 voxels of" in out
    assert run("explain", "--gin_file", output, "--hardware", "t4") == 0
    explained = capsys.readouterr().out
    assert "patch: 30 x 32 x 32 of 30 x 36 x 32 voxels, 89% of the image; 2 windows cover it" in explained
    memory = text.partition("# Memory: ")[2].partition(" per device")[0]
    assert f" {memory} = " in explained


def test_an_existing_file_is_kept_unless_overwritten(planned, tmp_path, capsys):
    output = tmp_path / "mine.gin"
    output.write_text("# mine\n")
    (tmp_path / "fingerprint.json").write_bytes((planned / "fingerprint.json").read_bytes())
    words = ["plan", "--data_dir", planned / "raw", *DEVICES, "--output", output]
    assert run(*words) == 2
    assert "this file exists. Fix: choose another name, or add --overwrite." in capsys.readouterr().err
    assert output.read_text() == "# mine\n"
    assert run(*words, "--overwrite") == 0
    assert "job.task = @unet3d.Segmentation()" in output.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hardware", "a1000"], "hardware 'a1000' is unknown. Did you mean 'a100'?"),
        (["--hardware", "a100", "--memory", "4x"], "--memory 4x: is not a size. Fix: give the memory of a device"),
        (["--hardware", "a100", "--output", "plan.txt"], "must be a gin file. Fix: --output plan.gin"),
        (["--hardware", "a100", "--memory", "1M"], "a step on one volume of x:30,y:36,z:32 voxels needs"),
        (["--hardware", "a100", "--data_dir", "nowhere"], "nowhere"),
    ],
)
def test_mistakes(planned, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fingerprint.json").write_bytes((planned / "fingerprint.json").read_bytes())
    assert run("plan", "--data_dir", planned / "raw", "--num_devices", 1, *words) in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list(tmp_path.glob("*.gin"))


def test_the_window_of_a_ct_is_measured(tmp_path, capsys):
    write_phantom(tmp_path / "raw", 1, seed=1)
    for path in (tmp_path / "raw").glob("*.nii.gz"):
        nibabel.load(path).slicer[::4, ::4, ::4].to_filename(path.with_name(f"small-{path.name}"))
        path.with_name(f"small-{path.name}").replace(path)
    output = tmp_path / "plan.gin"
    words = ["--num_devices", 1, "--hardware", "t4", "--workers", 1, "--output", output]
    assert run("plan", "--data_dir", tmp_path / "raw", *words) == 0
    hu = np.asarray(nibabel.load(tmp_path / "raw/volume-0.nii.gz").dataobj)
    labels = np.asarray(nibabel.load(tmp_path / "raw/segmentation-0.nii.gz").dataobj)
    low, high = np.percentile(hu[labels > 0], (0.5, 99.5))
    window = (np.floor(low / 5) * 5, np.ceil(high / 5) * 5)
    assert f"job.window = ({window[0]:.1f}, {window[1]:.1f})" in output.read_text()
    table = " ".join(capsys.readouterr().out.split())
    assert f"window {window[0]:g} to {window[1]:g} HU: percentiles 0.5 and 99.5 of the labeled voxels" in table


@pytest.mark.slow
def test_hardware_of_a_gin_file(planned, tmp_path, capsys):
    (tmp_path / "fingerprint.json").write_bytes((planned / "fingerprint.json").read_bytes())
    fields = {"name": "'mine'", "memory": 16e9, "flops": 1e14, "flops_float32": 5e13, "link": 1e11}
    (tmp_path / "mine.gin").write_text("".join(f"hardware.{name} = {value}\n" for name, value in fields.items()))
    output = tmp_path / "plan.gin"
    hardware = ["--num_devices", 2, "--hardware", tmp_path / "mine.gin"]
    assert run("plan", "--data_dir", planned / "raw", *hardware, "--output", output) == 0
    assert "2 x mine" in capsys.readouterr().out
    assert "job.dtype = 'bfloat16'" in output.read_text()


@pytest.mark.slow
def test_pictures_are_planned_as_volumes_of_one_plane(tmp_path, capsys):
    generator = np.random.default_rng(1)
    for number in range(2):
        for folder, high in (("imagesTr/cell_{}_0000.png", 255), ("labelsTr/cell_{}.png", 2)):
            path = tmp_path / "raw" / folder.format(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(generator.integers(0, high, (60, 80), dtype=np.uint8)).save(path)
    description = Description(("gray",), {"cell": 1}, {"cell": (1,)}, file_ending=".png")
    write_description(tmp_path / "raw", description, 2)
    output = tmp_path / "plan.gin"
    words = ["--num_devices", 2, "--hardware", "l4", "--workers", 1, "--output", output]
    assert run("plan", "--data_dir", tmp_path / "raw", *words) == 0
    text = output.read_text()
    assert "setup.resolution = 'x:80,y:64,z:1'" in text
    assert "Augmentation.flips = ('x', 'y')" in text
    assert run(*commands(tmp_path)["convert"], "--workers", 1) == 0
    assert read_manifest(tmp_path / "records").sampling.grid == (80, 64, 1)


def test_units_of_memory():
    assert parse_memory("40G") == parse_memory("40 GiB") == parse_memory("40") == parse_memory("40gb") == 40 * 2**30
    assert parse_memory("512M") == 2**29
    assert parse_memory(".5T") == 2**39
    for text in ("", "0", "-4G", "4K", "G", "nan"):
        with pytest.raises(ConfigError, match=r"--memory .*Fix"):
            parse_memory(text)
