"""The command lines of each kind of data, and the images that they read."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np

from tests.data.dicom_folder import write_series
from tests.golden import array_network
from tests.jobs import launched, object_network, photo_network

# Without first biases, the networks of a few steps predict other labels than the background.
_COMMON = """
train.num_steps = 12
train.checkpoint_every = 6
train.class_frequencies = None
Adam.learning_rate = 0.05
"""
_TOGETHER = ("train", "cross_validate", "evaluate", "predict")  # the commands that run in several processes
# The formats of other runtimes need float32. Without slots of an optimizer, rounding has little effect on one step.
FLOAT32 = """
job.dtype = "float32"
train.num_steps = 1
train.optimizer = @SGD()
SGD.learning_rate = 0.01
"""


class Kind(NamedTuple):
    """A kind of data.

    Attributes:
      gin: the job.
      layout: flags that split the network over two processors.
      write: writes the images to the folder `data`.
      lines: the command lines, which run in a folder that has `job.gin`, `float32.gin` and `data`; indented lines
        continue them. `OUT` stands for the folder of the results, in which each command writes another folder.
    """

    gin: str
    layout: str
    write: Callable[[Path], object]
    lines: str

    def commands(self, processes: int) -> list[list[str]]:
        """Returns the words of the commands for a number of processes; several run only those that support it."""
        lines = self.lines.strip().replace("\n ", " ").splitlines()
        if processes == 1:
            return [line.replace("OUT", "1").split() for line in lines]
        lines = [line for line in lines if line.startswith(_TOGETHER) and "OUT" in line]
        return [f"{line} {self.layout}".replace("OUT", str(processes)).split() for line in lines]


def _write_cases(folder: Path) -> None:
    """Writes four cases as of LiTS, one of them for a submission to the challenge and as DICOM files, too."""
    (folder / "cases").mkdir(parents=True)
    affine, shape = np.diag([-4.0, 4.0, 5.0, 1.0]), (12, 10, 9)
    for case in range(4):
        rng = np.random.default_rng(case)
        labels = np.zeros(shape, np.uint8)
        labels[2:9, 2:8, 1 + case % 2 : 7] = 1
        labels[3:8, 3 : 6 + case % 3, 3:6] = 2
        values = np.int16(rng.normal(labels * 400.0 - 400, 100))
        for name, array in (("volume", values), ("segmentation", labels)):
            nibabel.save(nibabel.Nifti1Image(array, affine), folder / f"cases/{name}-{case}.nii.gz")
    (folder / "submission").mkdir()
    nibabel.save(nibabel.Nifti1Image(values, affine), folder / "submission/test-volume-3.nii")
    write_series(folder / "series", values + np.int16(1024), FrameOfReferenceUID="1.2.3.4")


def _write_arrays(folder: Path) -> None:
    (folder / "arrays").mkdir(parents=True)
    for number in range(2):
        np.save(folder / f"arrays/image_{number}.npy", np.random.default_rng(number).normal(size=array_network.SHAPE))


def _write_demo_jobs(_: Path) -> None:
    """Writes jobs of a few steps into the working folder, where they take precedence over the shipped ones."""
    for name in ("unet3d_demo", "unet3d_brain", "deeplab_scenes", "retinanet_objects", "mask_rcnn_objects"):
        few = 'train.num_steps = 2\ntrain.checkpoint_every = 1\ntrain.eval_every = 2\njob.dtype = "float64"\n'
        Path(name).write_text(f"include 'gin/{name}.gin'\n{few}")


DEMOS = {
    f"demo_{name}": Kind("", "", _write_demo_jobs, f"demo --kind {name} --output_dir OUT/demo")
    for name in ("liver", "brain", "scenes", "objects")
}
KINDS = {
    "volumes": Kind(
        launched.GIN + _COMMON + "LiverTumorSegmentation.class_weights = (1.0, 2.0, 8.0)\n",
        "--mesh_shape rows:2 --layout x:rows",
        _write_cases,
        """
phantom --output_dir OUT/phantom --num_cases 1 --seed 1
phantom --output_dir OUT/phantom_brain --num_cases 1 --seed 1 --kind brain
convert --input_dir data/cases --output_dir OUT/records --resolution x:8,y:14,z:8 --workers 1
convert --input_dir data/cases --output_dir OUT/spaced --spacing 5,6,7 --multiple 4 --workers 1
train --data_dir 1/records --eval_dir 1/records --model_dir OUT/run --gin_file job.gin
cross_validate --data_dir 1/records --input_dir data/cases --output_dir OUT/folds
    --gin_file job.gin --num_folds 2 --workers 1
predict --model_dir OUT/run --input data/cases/volume-0.nii.gz --output OUT/predict_one/one.nii.gz
    --probabilities --uncertainty
predict --model_dir OUT/run --input data/cases --output OUT/predict_flips --gin.job.flips=("x","z") --uncertainty
predict --model_dir OUT/folds --input data/cases --output OUT/predict_ensemble --ensemble --probabilities --uncertainty
predict --model_dir OUT/run --input data/cases --output OUT/predict_window
    --window x:4,y:8,z:6 --window_step 0.5 --cleanup lits --output_format nrrd --probabilities
predict --model_dir OUT/run --input data/cases --output OUT/predict_best
    --checkpoint best --output_format ome-zarr --probabilities
predict --model_dir OUT/run --input data/cases --output OUT/predict_spacing
    --resolution x:12,y:10,z:8 --spacing 5,5,6 --output_format mha
predict --model_dir OUT/run --input data/submission --output OUT/predict_submission --submission
predict --model_dir OUT/run --input data/series --output OUT/predict_series/one.dcm --uncertainty
evaluate --model_dir OUT/run --input_dir data/cases --output_dir OUT/evaluate
evaluate --model_dir OUT/run --input_dir data/cases --output_dir OUT/evaluate_window
    --window x:4,y:8,z:6 --cleanup lits --output_format mha
evaluate --model_dir OUT/folds --input_dir data/cases --output_dir OUT/evaluate_ensemble
    --ensemble --gin.job.flips=("y",)
score --reference_dir data/cases --prediction_dir OUT/predict_flips --output_dir OUT/score --workers 1
score --reference_dir data/cases --prediction_dir OUT/predict_window --output_dir OUT/score_any --rules any --workers 1
train --data_dir 1/records --model_dir data/run_float32 --gin_file job.gin --gin_file float32.gin
export --model_dir OUT/run --output OUT/export_saved_model --cleanup lits --gin.job.flips=("x",)
export --model_dir data/run_float32 --output OUT/export_onnx --format onnx --cleanup lits --gin.job.flips=("x",)
export --model_dir data/run_float32 --output OUT/export_tflite --format tflite --cleanup lits --gin.job.flips=("x",)
""",
    ),
    "photos": Kind(
        photo_network.GIN + _COMMON,
        "--mesh_shape rows:2 --layout height:rows",
        lambda folder: photo_network.write_photos(folder / "photos"),
        """
phantom --output_dir OUT/phantom --num_cases 4 --seed 1 --kind scenes
train --data_dir data/photos --eval_dir data/photos --model_dir OUT/run --gin_file job.gin
train --data_dir data/photos --model_dir OUT/folds/fold_0 --gin_file job.gin --num_steps 6 --seed 1
train --data_dir data/photos --model_dir OUT/folds/fold_1 --gin_file job.gin --num_steps 6 --seed 2
predict --model_dir OUT/run --input data/photos/images/photo_1.png --output OUT/predict_one/one.png
predict --model_dir OUT/run --input data/photos --output OUT/predict
predict --model_dir OUT/run --input data/photos --output OUT/predict_flips
    --gin.job.flips=("width",) --gin.job.scales=(0.5,1.0)
predict --model_dir OUT/folds --input data/photos --output OUT/predict_ensemble --ensemble
evaluate --model_dir OUT/run --input_dir data/photos --output_dir OUT/evaluate
evaluate --model_dir OUT/run --input_dir data/photos --output_dir OUT/evaluate_batches
    --split train --eval_batch_size 2 --gin.job.flips=("height",) --checkpoint best
evaluate --model_dir OUT/folds --input_dir data/photos --output_dir OUT/evaluate_ensemble --ensemble
train --data_dir data/photos --model_dir data/run_float32 --gin_file job.gin --gin_file float32.gin
export --model_dir OUT/run --output OUT/export_saved_model --gin.job.flips=("width",)
export --model_dir data/run_float32 --output OUT/export_onnx --format onnx --gin.job.flips=("width",)
export --model_dir data/run_float32 --output OUT/export_tflite --format tflite --gin.job.flips=("width",)
export --model_dir OUT/folds --output OUT/export_ensemble --ensemble
""",
    ),
    "objects": Kind(
        object_network.GIN + _COMMON + "TinyDetection.masks = True\nObjects.masks = True\n",
        "--mesh_shape rows:2 --layout height:rows",
        lambda folder: object_network.write_objects_folder(folder / "objects"),
        """
phantom --output_dir OUT/phantom --num_cases 4 --seed 1 --kind objects
train --data_dir data/objects --eval_dir data/objects --model_dir OUT/run --gin_file job.gin
predict --model_dir OUT/run --input data/objects/val/q0.png --output OUT/predict_one/one.json
predict --model_dir OUT/run --input data/objects --output OUT/predict
predict --model_dir OUT/run --input data/objects --output OUT/predict_flips
    --gin.job.flips=("width",) --gin.job.scales=(0.75,1.0)
evaluate --model_dir OUT/run --input_dir data/objects --output_dir OUT/evaluate
evaluate --model_dir OUT/run --input_dir data/objects --output_dir OUT/evaluate_batches
    --split train --eval_batch_size 2 --gin.job.flips=("height",) --checkpoint best
train --data_dir data/objects --model_dir data/run_float32 --gin_file job.gin --gin_file float32.gin
export --model_dir OUT/run --output OUT/export_saved_model
export --model_dir data/run_float32 --output OUT/export_onnx --format onnx
""",
    ),
    "arrays": Kind(
        array_network.GIN + _COMMON,
        "--mesh_shape rows:2 --layout height:rows",
        _write_arrays,
        """
train --data_dir none --model_dir OUT/run --gin_file job.gin
train --data_dir none --model_dir OUT/parts --gin_file job.gin --gin.ArrayTask.several=True --num_steps 6
train --data_dir none --model_dir OUT/folds/fold_0 --gin_file job.gin --num_steps 6 --seed 1
train --data_dir none --model_dir OUT/folds/fold_1 --gin_file job.gin --num_steps 6 --seed 2
predict --model_dir OUT/run --input data/arrays/image_1.npy --output OUT/predict_one/one.npy
predict --model_dir OUT/run --input data/arrays --output OUT/predict
predict --model_dir OUT/parts --input data/arrays --output OUT/predict_parts
predict --model_dir OUT/folds --input data/arrays --output OUT/predict_ensemble --ensemble
train --data_dir none --model_dir data/run_float32 --gin_file job.gin --gin_file float32.gin
export --model_dir OUT/run --output OUT/export_saved_model
export --model_dir data/run_float32 --output OUT/export_onnx --format onnx
export --model_dir data/run_float32 --output OUT/export_tflite --format tflite
export --model_dir OUT/folds --output OUT/export_ensemble --ensemble
""",
    ),
}
