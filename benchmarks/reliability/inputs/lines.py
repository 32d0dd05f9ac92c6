"""The command lines of the inputs. {good} is the folder with the good data, {here} the input folder."""

CONVERT = "convert --input_dir {here}/DATA --output_dir {here}/out --resolution 8 --workers 1"
PLAN = "plan --data_dir {here}/DATA --num_devices 1 --hardware a100 --workers 1 --output {here}/plan.gin"
EVALUATE = "evaluate --model_dir {good}/RUN --input_dir {here}/DATA --output_dir {here}/out"
PREDICT = "predict --model_dir {good}/RUN --input {here}/DATA --output {here}/out"
SCORE = "score --output_dir {here}/out --workers 1 --reference_dir {here}/DATA --prediction_dir {good}/predictions"
SCORE_PREDICTION = "score --output_dir {here}/out --workers 1 --reference_dir {good}/cases --prediction_dir {here}/DATA"
TINY = (
    " --gin_file unet3d_demo --gin.UNet3D.base_filters=2 --gin.UNet3D.depth=1 --gin.UNet3D.convs=1"
    " --seed 3 --num_steps 2"
)
TRAIN = "train --data_dir {here}/DATA --model_dir {here}/run" + TINY
CROSS_VALIDATE = (
    "cross_validate --data_dir {here}/DATA --input_dir {good}/cases --output_dir {here}/cv --num_folds 2" + TINY
)


def on(line: str, data: str, run: str = "run") -> str:
    """Returns a command line for a folder or file of the input, and a run from the good data."""
    return line.replace("DATA", data).replace("RUN", run)
