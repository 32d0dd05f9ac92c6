"""Command lines with wrong flags and values."""

from pathlib import Path

from benchmarks.reliability.inputs.bad_input import BadInput, Refused, Right
from benchmarks.reliability.inputs.lines import CONVERT, EVALUATE, PLAN, PREDICT, SCORE, TINY, on

_TRAIN = "train --data_dir {good}/records --model_dir {here}/run" + TINY
_CONVERT = on(CONVERT, "cases").replace("{here}/cases", "{good}/cases")
_PREDICT = on(PREDICT, "x").replace("{here}/x", "{good}/cases")
_EVALUATE = on(EVALUATE, "x").replace("{here}/x", "{good}/cases")
_PLAN = on(PLAN, "x").replace("{here}/x", "{good}/cases")
_SCORE = on(SCORE, "x").replace("{here}/x", "{good}/cases")
_EXPLAIN = "explain --gin_file unet3d_demo --resolution 16"
# {name: (command line, text in the message)}
_FAULTS = {
    "an unknown command": ("trian --data_dir x", "trian"),
    "no flags": ("convert", "input_dir"),
    "a missing flag": ("train --data_dir {good}/records", "model_dir"),
    "an unknown flag": (f"{_CONVERT} --resolutoin 8", "resolutoin"),
    "a flag without a value": ("convert --input_dir {good}/cases --output_dir", "output_dir"),
    "a negative resolution": (_CONVERT.replace("--resolution 8", "--resolution -8"), "resolution"),
    "a resolution of 0": (_CONVERT.replace("--resolution 8", "--resolution 0"), "resolution"),
    "a resolution that is text": (_CONVERT.replace("--resolution 8", "--resolution large"), "resolution"),
    "a resolution with an unknown axis": (_CONVERT.replace("--resolution 8", "--resolution x:8,y:8,w:8"), "resolution"),
    "a resolution of 1e9": (_CONVERT.replace("--resolution 8", "--resolution 1000000000"), ""),
    "a spacing of 0": (_CONVERT.replace("--resolution 8", "--spacing 0"), "spacing"),
    "a spacing of NaN": (_CONVERT.replace("--resolution 8", "--spacing nan"), "spacing"),
    "a spacing of 1e-9 mm": (_CONVERT.replace("--resolution 8", "--spacing 0.000000001"), ""),
    "no workers": (_CONVERT.replace("--workers 1", "--workers 0"), "workers"),
    "chunks of 0": (f"{_CONVERT} --chunk 0", "chunk"),
    "a table of spacings that is missing": (f"{_CONVERT} --spacing_csv {{here}}/none.csv", "none.csv"),
    "an input folder that is missing": (on(CONVERT, "none"), "none"),
    "an input folder without cases": ("convert --input_dir {here} --output_dir {here}/out --resolution 8", "input"),
    "records that are missing": (_TRAIN.replace("{good}/records", "{here}/none"), "none"),
    "cases in place of records": (_TRAIN.replace("{good}/records", "{good}/cases"), "cases"),
    "an unknown gin file": (f"{_TRAIN} --gin_file unet3d_dmeo", "unet3d_dmeo"),
    "an unknown gin parameter": (f"{_TRAIN} --gin.UNet3D.base_filter=2", "base_filter"),
    "a gin parameter without a value": (f"{_TRAIN} --gin_param setup.batch_size", "setup.batch_size"),
    "a gin parameter of another type": (f"{_TRAIN} --gin.setup.batch_size='two'", "batch_size"),
    "a gin parameter that runs code": (f"{_TRAIN} --gin_param a=__import__('os').getcwd()", "__import__"),
    "negative steps": (_TRAIN.replace("--num_steps 2", "--num_steps -2"), "num_steps"),
    "steps that are text": (_TRAIN.replace("--num_steps 2", "--num_steps two"), "num_steps"),
    "a negative seed": (_TRAIN.replace("--seed 3", "--seed -3"), "seed"),
    "a fold that does not exist": (f"{_TRAIN} --fold 9", "fold"),
    "a single fold": (f"{_TRAIN} --fold 0 --num_folds 1", "folds"),
    "more folds than cases": (f"{_TRAIN} --fold 0 --num_folds 9", "folds"),
    "an unknown mesh dimension": (f"{_TRAIN} --mesh_shape rows:2 --layout x:cols", "cols"),
    "an unknown dimension": (f"{_TRAIN} --mesh_shape rows:2 --layout w:rows", "w"),
    "a dimension split twice": (f"{_TRAIN} --mesh_shape rows:2,cols:2 --layout x:rows,x:cols", "x"),
    "a mesh of 0": (f"{_TRAIN} --mesh_shape rows:0 --layout x:rows", "rows:0"),
    "a negative mesh": (f"{_TRAIN} --mesh_shape rows:-2 --layout x:rows", "rows"),
    "a mesh that is text": (f"{_TRAIN} --mesh_shape rows --layout x:rows", "rows"),
    "a layout without a colon": (f"{_TRAIN} --mesh_shape rows:2 --layout x", "x"),
    "a batch of 0": (f"{_TRAIN} --batch_size 0", "batch_size"),
    "more micro-batches than images": (f"{_TRAIN} --batch_size 2 --micro_batches 3", "micro_batches"),
    "an unknown mesh implementation": (f"{_TRAIN} --mesh_impl magic", "magic"),
    "steps to profile that are text": (f"{_TRAIN} --profile_steps all", "profile_steps"),
    "weights that are missing": (f"{_TRAIN} --initial_weights {{here}}/none", "none"),
    "a run that is missing": (_PREDICT.replace("{good}/run", "{here}/none"), "none"),
    "no held-out checkpoint": (f"{_PREDICT} --checkpoint best", "best"),
    "an unknown checkpoint": (f"{_PREDICT} --checkpoint 17", "17"),
    "an ensemble of one run": (f"{_PREDICT} --ensemble", "ensemble"),
    "a submission of other cases": (f"{_PREDICT} --submission", "submission"),
    "an input that is missing": (_PREDICT.replace("{good}/cases", "{here}/none.nii.gz"), "none.nii.gz"),
    "an unknown format of the output": (f"{_PREDICT} --output_format analyze", "analyze"),
    "a split of cases": (f"{_EVALUATE} --split val", "split"),
    "an unknown kind of devices": (_PLAN.replace("a100", "a1000"), "a1000"),
    "no devices": (_PLAN.replace("--num_devices 1", "--num_devices 0"), "num_devices"),
    "memory that is text": (f"{_PLAN} --memory much", "memory"),
    "negative memory": (f"{_PLAN} --memory -4G", "memory"),
    "unknown rules": (f"{_SCORE} --rules best", "best"),
    "a tolerance of NaN": (f"{_SCORE} --rules any --surface_tolerance nan", "surface_tolerance"),
    "a negative tolerance": (f"{_SCORE} --rules any --surface_tolerance -1", "surface_tolerance"),
    "predictions that are missing": (_SCORE.replace("{good}/predictions", "{here}/none"), "none"),
    "a picture in an unknown format": (f"{_EXPLAIN} --picture {{here}}/layout.xyz", "layout.xyz"),
    "hardware that is missing": (f"{_EXPLAIN} --hardware {{here}}/none.gin", "none.gin"),
    "a negative price": (f"{_EXPLAIN} --hardware a100 --price_per_hour -3", "price_per_hour"),
    "an existing model": ("export --model_dir {good}/run --output {good}/cases", "cases"),
    "a checkpoint that is missing": (
        "import_weights --checkpoint {here}/none.ckpt --output_dir {here}/weights",
        "none.ckpt",
    ),
    "a checkpoint that is a text file": (
        "import_weights --checkpoint {good}/objects.gin --output_dir {here}/weights",
        "objects.gin",
    ),
    "no synthetic cases": ("phantom --output_dir {here}/cases --num_cases 0", "num_cases"),
    "an unknown kind of synthetic cases": ("phantom --output_dir {here}/cases --kind liver", "liver"),
    "folds that are text": (
        "cross_validate --data_dir {good}/records --input_dir {good}/cases --output_dir {here}/cv --folds a,b" + TINY,
        "folds",
    ),
    "cases of other records": (
        "cross_validate --data_dir {good}/records --input_dir {good}/nnunet --output_dir {here}/cv" + TINY,
        "",
    ),
}


def _nothing(good: Path, here: Path) -> None:
    """The input is the command line itself."""


INPUTS = [BadInput("flags", name, line, _nothing, (Refused(named),)) for name, (line, named) in _FAULTS.items()]
INPUTS += [
    BadInput("flags", name, line, _nothing, (Right(),))
    for name, line in {
        "help of a command": "train --help",
        "more slices than voxels": f"{_TRAIN} --mesh_shape rows:64 --layout x:rows",
        "another resolution than in training": f"{_EVALUATE} --resolution 7",
        "no job": "explain --resolution 16",
        "a flag with an equals sign": _CONVERT.replace("--resolution 8", "--resolution=8"),
    }.items()
]
