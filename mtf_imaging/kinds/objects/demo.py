"""The demo on objects: synthetic images with boxes and masks, or a folder with COCO's structure."""

import json
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.demo import Command, Step, Workflow
from mtf_imaging.plain_text import decimals, text_table

KIND = "objects"
_BOXES_JOB, _JOB, _ONE = "retinanet_objects", "mask_rcnn_objects", "single"
_NUM_IMAGES = 320
_TRAIN, _HELD_OUT = "train", "val"  # the splits that the jobs read
_COLUMNS = {"ap50": "AP50", "ap75": "AP75", "ap": "AP"}


class Demo(Workflow):
    """The steps for images with objects.

    The RetinaNet folders are `retinanet` and `retinanet_evaluation`. The folders of Mask R-CNN, which also predicts
    masks, are `model` and `evaluation`.
    """

    synthetic = "objects"
    job, job_of_one = [_JOB], [_JOB, _ONE]  # the job has its own layout
    processors = 4
    compared_duration = "1 minute"

    def __init__(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> None:
        super().__init__(output_dir, input_dir, demo)
        self._retinanet, self._retinanet_evaluation = output_dir / "retinanet", output_dir / "retinanet_evaluation"

    def steps(self) -> list[Step]:
        if not self._is_synthetic:
            _check_splits(self.data_dir)
        phantom = Step(
            "write synthetic images of textured shapes with their boxes and masks", "10 seconds", self._write
        )
        return [
            *([phantom] if self._is_synthetic else []),
            Step(
                "train RetinaNet on images that are split 2 x 2, on 4 processors simulated by 1 device",
                "4 minutes",
                lambda: self._train(_BOXES_JOB, self._retinanet),
                "RetinaNet predicts the boxes of objects.",
            ),
            Step(
                "detect and score the objects of the held-out images",
                "30 seconds",
                lambda: self._evaluate(self.data_dir, self._retinanet, self._retinanet_evaluation),
            ),
            Step(
                "train Mask R-CNN under the same layout, with its regions split over two processors",
                "4 minutes",
                lambda: self._train(_JOB, self._model),
                "Mask R-CNN predicts the boxes and the masks of objects.",
            ),
            Step(
                "detect and score the objects of the held-out images, with their masks",
                "30 seconds",
                lambda: self._evaluate(self.data_dir),
            ),
            Step(
                "detect the objects of one of these images, and write them as COCO results",
                "15 seconds",
                self._predict_one,
            ),
        ]

    def scores_table(self, metrics: dict[str, Any]) -> list[str]:
        retinanet = json.loads((self._retinanet_evaluation / "metrics.json").read_text())
        rows = {"RetinaNet, boxes": retinanet["boxes"], "Mask R-CNN, boxes": metrics["boxes"]}
        masks = metrics["masks"]
        categories = {f"  {name}": scores for name, scores in masks["categories"].items()}
        shown = {**rows, "Mask R-CNN, masks": masks, **categories}
        cells = [(label, *(decimals(scores[key]) for key in _COLUMNS)) for label, scores in shown.items()]
        return text_table([("Objects of the held-out images", *_COLUMNS.values()), *cells], (32, 6))

    def picture(self, metrics: dict[str, Any]) -> Path:
        return self._evaluation / "pictures" / f"{next(iter(metrics['images']))}.png"

    def _write(self) -> list[Command]:
        return [("phantom", {"kind": KIND, "output_dir": self.data_dir, "num_cases": _NUM_IMAGES, "seed": 1})]

    def _train(self, job: str, model_dir: Path) -> list[Command]:
        return [("train", {"data_dir": self.data_dir, "model_dir": model_dir, "gin_file": [job]})]

    def _predict_one(self) -> list[Command]:
        from mtf_imaging.kinds.objects.reading.annotations import find_object_images

        image = find_object_images(self.data_dir, _HELD_OUT)[0]
        return self._predict(image.image, f"{Path(image.key).name}.json")


def _check_splits(folder: Path) -> None:
    """Checks that a folder has training images with object masks, and held-out images.

    Raises:
      DataError: a split is missing or empty, or an object has no mask.
    """
    from mtf_imaging.kinds.objects.reading.annotations import find_object_images

    for name in (_TRAIN, _HELD_OUT):
        for image in find_object_images(folder, name):
            if any(one.segmentation is None for one in image.objects or ()):
                raise DataError(
                    f"{image.image}: an object of the split '{name}' has no \"segmentation\", which Mask R-CNN needs. "
                    f"Fix: add them, or train with the job {_BOXES_JOB} (docs/guides/detection.md)."
                )
