"""The page about the steps of Mask R-CNN lists all files of its folder, and states the shapes of the network."""

import re
from pathlib import Path

import pytest
import tensorflow as tf

from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.detection import InstanceSegmentation, MaskRCNN, instance_task
from mtf_imaging.models.resnet import ResNetBackbone

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/mask_rcnn.md").read_text()


def test_all_files_are_listed():
    files = {path.name for path in (ROOT / "models/detection").glob("*.py")} - {"__init__.py"}
    assert files == set(re.findall(r"`(\w+\.py)`", PAGE.partition("## Files")[2]))
    assert set(re.findall(r"`(\w+\.py)`", PAGE)) == files


@pytest.mark.slow
def test_shapes_are_those_of_the_network(monkeypatch):
    shapes = []

    def record(owner, name):
        fn = getattr(owner, name)

        def recorded(*args, **kwargs):
            result = fn(*args, **kwargs)
            shapes.extend(" x ".join(map(str, x.shape.to_integer_list)) for x in tf.nest.flatten(result))
            return result

        monkeypatch.setattr(owner, name, recorded)

    for name in ("features", "region_scores", "classify", "masks"):
        record(MaskRCNN, name)
    for name in ("propose", "sample_rois", "mask_targets"):
        record(instance_task, name)
    task = InstanceSegmentation(MaskRCNN(ResNetBackbone(), train_norms=False, roi_max_level=6), classes=80)
    inputs = task.inputs(1, (1024, 1024))
    trace_only(task.loss, inputs)
    shapes += [" x ".join(re.findall(r":(\d+)", shape)) for shape, _ in inputs.values()]
    # Of the levels, the page states P2 as a whole.
    stated = [shape for shape in shapes if not re.match(r"1 x (128|64|32|16) x \1", shape)]
    assert len(set(stated)) > 10
    assert not [shape for shape in stated if not re.search(rf"(?<![\dx] ){shape}(?! x)", PAGE)]
