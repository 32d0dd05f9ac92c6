"""`predict --network` of models of nnU-Net equals nnU-Net's rules, from the files of images to labels."""

import json
import shutil
import tempfile
import zipfile

import nibabel
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.networks.nnunet.plans import read_configuration
from tests.commands import run_line
from tests.networks import nnunet_rules
from tests.networks.test_nnunet import FLAT, PLAIN, RESIDUAL

FINAL = "checkpoint_final.pth"
LPS, RAS = np.array([-1, -1, 1]), np.array([1, 1, 1])


def image(sizes, channels, seed=0):
    """Returns smooth channels with a margin of zeros, a hole, and voxels that are 0 in some channels.

    The last channel is 0 at more voxels than the others, so only all channels together have the box of the image.
    """
    values = np.random.default_rng(seed).normal(60, 40, (channels, *sizes)) + 8 * np.indices(sizes).sum(0)
    values = np.rint(values).astype(np.float32)
    values[:, :2], values[:, :, -3:], values[:, 6:8, 3:5, 4:6] = 0, 0, 0
    values[-1, :4] = 0
    return values


def fold(folder, number, scale):
    """Adds a fold whose first weights are scaled. A checkpoint is an archive with a file for each weight."""
    (folder / f"fold_{number}").mkdir()
    source, target = (folder / f"fold_{n}" / FINAL for n in (0, number))
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("data/0"):
                content = (scale * np.frombuffer(content, np.float32)).astype(np.float32).tobytes()
            new.writestr(name, content)


def network(path, patch):
    """Returns a function of one window, `[channels, *patch]`."""
    loaded = mi.networks.load(path)
    program = mi.Program(loaded, loaded.inputs(**dict(zip("zyx"[-len(patch) :], patch))))
    return lambda window: np.moveaxis(program(image=np.moveaxis(window, 0, -1)[None].astype(np.float32))[0], -1, 0)


def stored(path):
    """Returns the values of a file along z, y and x, after those of a map."""
    return np.asarray(nibabel.load(path).dataobj).squeeze().transpose()


@pytest.mark.parametrize(
    ("model", "sizes", "spacing", "directions", "folds", "flags"),
    [
        (PLAIN, (8, 17, 9), (0.65, 0.7, 2.5), LPS, [0.5, 1.5], ""),
        (RESIDUAL, (12, 10, 14), (1.1, 1.7, 0.8), RAS, [1.5], "--mesh_shape rows:2 --layout x:rows"),
        (FLAT, (10, 17, 9), (0.6, 0.7, 3.0), LPS, [], ""),
    ],
    ids=["folds and slices apart", "regions and masks", "2-D"],
)
def test_predictions_equal_the_rules_of_nnunet(
    tmp_path, monkeypatch, model, sizes, spacing, directions, folds, flags
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = shutil.copytree(model, tmp_path / model.name)
    for number, scale in enumerate(folds, 1):
        fold(folder, number, scale)
    described = json.loads((folder / "dataset.json").read_text())
    images = image(sizes, len(described["channel_names"]))
    (tmp_path / "cases").mkdir()
    affine = np.diag([*(directions * spacing), 1.0])
    for number, channel in enumerate(images):
        nibabel.save(nibabel.Nifti1Image(channel, affine), f"cases/a_{number:04d}.nii.gz")

    plans, configuration = read_configuration(folder / "plans.json", None)
    checkpoints = [folder / f"fold_{number}" / FINAL for number in range(len(folds) + 1)]
    networks = [network(path, configuration["patch_size"]) for path in checkpoints]
    mirrored = {PLAIN: (0, 1, 2), RESIDUAL: (0, 2), FLAT: ()}[model]
    given = np.transpose(images, [0, 3, 2, 1]), spacing[::-1], plans, configuration, networks, mirrored
    regions = described.get("regions_class_order")
    labels, probabilities = nnunet_rules.segment(*given, regions)

    assert run_line(f"predict --network {folder} --input cases --output out --probabilities {flags}") == 0
    found, maps = (stored(next((tmp_path / "out" / name).glob("a*.nii.gz"))) for name in ("", "probabilities"))
    np.testing.assert_allclose(maps, probabilities, rtol=0, atol=2e-5)
    ordered = np.sort(probabilities, 0)
    margin = ordered[-1] - ordered[-2] if regions is None else abs(ordered - 0.5).min(0)
    is_clear = margin > 1e-4  # elsewhere rounding decides
    assert is_clear.mean() > 0.99
    assert len(np.unique(labels[is_clear])) > 1
    np.testing.assert_array_equal(found[is_clear], labels[is_clear])
