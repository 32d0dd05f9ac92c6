"""`mtf-imaging import_weights`: what it prints, and training from what it writes."""

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from mtf_imaging.cli.commands import import_weights
from mtf_imaging.models.detection.weights import WEIGHT_FORMATS as DETECTORS
from mtf_imaging.models.resnet import WEIGHT_FORMATS
from mtf_imaging.training.checkpoints.weights_folder import Weights
from tests.commands import run_line
from tests.models import reference_checkpoints as reference

JOB = """
import mtf_imaging.models.resnet
job.task = @resnet.Classification()
resnet.Classification.network = @resnet.ResNet()
resnet.ResNet.classes = 4
resnet.ResNet.blocks = (1, 1)
resnet.ResNet.bottleneck = True
resnet.ResNet.base_filters = 4
setup.batch_size = 2
train.data = @resnet.GeneratedImages()
resnet.GeneratedImages.height = 16
resnet.GeneratedImages.width = 16
train.checkpoint_every = 1
train.optimizer = @SGD()
SGD.learning_rate = 0.0
"""


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """The path of a checkpoint of tensorflow/tpu, and its variables; the current folder is that of the test."""
    monkeypatch.chdir(tmp_path)
    arrays, _ = reference.tpu(np.zeros((1, 16, 16, 3), np.float32), (1, 1), 4)
    (tmp_path / "job.gin").write_text(JOB)
    return reference.write("model.ckpt-7", arrays), arrays


def test_it_prints_the_settings_and_the_next_command(checkpoint, capsys):
    assert run_line("import_weights --checkpoint model.ckpt-7 --output_dir weights") == 0
    output = capsys.readouterr().out
    assert "weights: a ResNet, 45 variables with 0.00 million values, from model.ckpt-7 (format tpu)\n" in output
    assert "  optimizer slots and moving averages of weights: 1\n" in output
    assert "  other variables: 3 (dense/bias, dense/kernel, global_step)\n" in output
    assert "  resnet.ResNetBackbone.blocks = (1, 1)\n" in output
    assert "  resnet.ResNetBackbone.norm_epsilon = 1e-05\n" in output
    assert 'image scaling "imagenet"' in output
    assert (
        "\nNext: mtf-imaging train --data_dir DATA --model_dir run --initial_weights weights --gin_file JOB" in output
    )


@pytest.mark.slow
def test_train_starts_from_the_weights(checkpoint):
    """With a learning rate of 0, the weights of the run remain those of the checkpoint."""
    assert run_line("import_weights --checkpoint model.ckpt-7.index --output_dir weights") == 0
    assert (
        run_line("train --gin_file job.gin --data_dir none --model_dir run --num_steps 1 --initial_weights weights")
        == 0
    )
    assert "train.initial_weights = 'weights'" in Path("run/config.gin").read_text()
    weights = dict(Weights("run/ckpt-1").read(["resnet/stem/filter", "resnet/stage1/block0/conv2_norm/scale"]))
    arrays = checkpoint[1]
    np.testing.assert_array_equal(weights["resnet/stem/filter"], arrays["conv2d/kernel"])
    np.testing.assert_array_equal(
        weights["resnet/stage1/block0/conv2_norm/scale"], arrays["batch_normalization_8/gamma"]
    )
    # The saved configuration names the weights, but they are neither needed nor applied again.
    shutil.rmtree("weights")
    assert run_line("train --data_dir none --model_dir run --num_steps 2") == 0


@pytest.mark.slow
def test_a_network_of_another_depth_is_refused(checkpoint, capsys):
    assert run_line("import_weights --checkpoint . --output_dir weights") == 0
    words = "train --gin_file job.gin --data_dir none --model_dir run --num_steps 1 --initial_weights weights"
    assert run_line(f"{words} --gin.resnet.ResNet.blocks='(2, 1)'") == 1
    error = capsys.readouterr().err
    assert (
        "have 'resnet/stage0/block0' as the last 'resnet/stage0/block', but the network has 'resnet/stage0/block1'"
        in error
    )
    assert "On the command line: --initial_weights, --gin.train.initial_weights_except=" in error


def test_mistakes_are_reported(checkpoint, capsys):
    assert run_line("import_weights --checkpoint none --output_dir weights") == 1
    assert "none: there is no such file: neither none.index nor none. Fix: " in capsys.readouterr().err
    assert run_line("import_weights --checkpoint model.ckpt-7 --output_dir weights --format tf_slim") == 1
    error = capsys.readouterr().err
    assert "which are not names of this format: TF-Slim" in error
    assert "On the command line: --checkpoint, --format." in error
    assert (
        run_line("train --data_dir none --gin_file job.gin --model_dir run --initial_weights none --num_steps 1") == 1
    )
    assert "none: there is no such checkpoint. Fix: use another checkpoint, the folder" in capsys.readouterr().err


def test_help(capsys):
    assert run_line("import_weights --help") == 0
    output = capsys.readouterr().out
    assert "mtf-imaging import_weights --checkpoint resnet_v1_50.ckpt --output_dir resnet50" in output
    assert "--initial_weights resnet50" in output
    assert run_line("train --help") == 0
    assert "Weights to start from" in capsys.readouterr().out


def test_the_names_of_formats_are_those_of_the_model():
    assert tuple(one.name for one in (*DETECTORS, *WEIGHT_FORMATS)) == import_weights._FORMATS


@pytest.mark.parametrize("name", ["weights[1]", r"a\b"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_paths_that_tensorflow_reads_as_patterns(checkpoint, name, is_folder):
    Path(name).mkdir()
    for path in [*Path().glob("model.ckpt-7.*"), *Path().glob("checkpoint")]:
        shutil.move(path, Path(name) / path.name)
    given = name if is_folder else f"{name}/model.ckpt-7"
    assert run_line(f"import_weights --checkpoint {shlex.quote(given)} --output_dir {shlex.quote(f'{name}/out')}") == 0
    (filters,) = (value for _, value in Weights(f"{name}/out/ckpt-0").read(["resnet/stem/filter"]))
    np.testing.assert_array_equal(filters, checkpoint[1]["conv2d/kernel"])
