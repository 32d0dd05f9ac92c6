"""The demo on photos: scenes, or the photos in a folder."""

from pathlib import Path
from typing import Any

from mtf_imaging.kinds.demo import Command, Step, Workflow
from mtf_imaging.plain_text import decimals, text_table

KIND = "scenes"
_JOB, _ONE = "deeplab_scenes", "single"
_NUM_PHOTOS = 120
_TRAIN, _HELD_OUT = "train", "val"  # the lists that the job reads


class Demo(Workflow):
    """The steps for photos with label images."""

    synthetic = "scenes"
    job, job_of_one = [_JOB], [_JOB, _ONE]  # the job has its own layout
    processors = 4
    compared_duration = "30 seconds"

    def steps(self) -> list[Step]:
        if not self._is_synthetic:
            _check_lists(self.data_dir)
        phantom = Step("write scenes, which are synthetic photos of textured shapes", "5 seconds", self._write_scenes)
        return [
            *([phantom] if self._is_synthetic else []),
            Step(
                "train on crops that are split 2 x 2, on 4 processors simulated by 1 device",
                "3 minutes",
                self._train_network,
                f"The photos of the list {_HELD_OUT} are scored during training, for TensorBoard.",
            ),
            Step(
                "segment and score the held-out photos with the last checkpoint, each photo at its own size",
                "15 seconds",
                lambda: self._evaluate(self.data_dir),
                "The best checkpoint was selected on these photos, so its score would be too optimistic.",
            ),
            Step("segment one of these photos, and write its classes as PNG", "10 seconds", self._predict_one),
        ]

    def scores_table(self, metrics: dict[str, Any]) -> list[str]:
        rows = [(name, scores["iou"]) for name, scores in metrics["classes"].items()]
        means = [("mean", metrics["mean_iou"])]
        return text_table(
            [("IoU of the held-out photos", "IoU"), *((name, decimals(iou)) for name, iou in rows + means)], (28, 6)
        )

    def picture(self, metrics: dict[str, Any]) -> Path:
        return self._evaluation / "pictures" / f"{next(iter(metrics['photos']))}.png"

    def _write_scenes(self) -> list[Command]:
        return [("phantom", {"kind": KIND, "output_dir": self.data_dir, "num_cases": _NUM_PHOTOS, "seed": 1})]

    def _train_network(self) -> list[Command]:
        folders = {"data_dir": self.data_dir, "eval_dir": self.data_dir, "model_dir": self._model}
        return [("train", dict(**folders, gin_file=self.job))]

    def _predict_one(self) -> list[Command]:
        from mtf_imaging.kinds.photos.reading.folders import find_photos

        photo = find_photos(self.data_dir, _HELD_OUT)[0]
        return self._predict(photo.image, f"{Path(photo.key).name}.png")


def _check_lists(folder: Path) -> None:
    """Checks that a folder has labeled training photos and labeled held-out photos.

    Raises:
      DataError: a list is missing or empty, or a photo has no label image.
    """
    from mtf_imaging.kinds.photos.reading.folders import find_photos, photo_description

    find_photos(folder)  # refuses a folder without label images, before their classes are looked up
    photo_description(folder)
    for name in (_TRAIN, _HELD_OUT):
        find_photos(folder, name)
