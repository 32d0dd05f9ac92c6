"""`mtf-imaging predict`: segments volumes or photos, or detects objects in images, with a trained network."""

from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.runtime.next_step import after_predict
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.files.run_folder import CONFIG, weights_folder

SUMMARY = "segments a volume, a photo or a folder of them, or detects objects in images."
EXAMPLE = "mtf-imaging predict --model_dir run --input volume-3.nii.gz --output segmentation-3.nii.gz"
REQUIRED = ("model_dir", "input", "output")
IDLE = {"batch_size": "predict computes one image at a time."}
NOTES = (
    "To segment a series of DICOM files, give its folder: mtf-imaging predict --model_dir run --input patient/series "
    "--output segmentation.nii.gz. To segment all cases of a folder as OME-Zarr: mtf-imaging predict --model_dir run "
    "--input cases --output segmentations --output_format ome-zarr. docs/guides/image_formats.md has more.",
)


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder of the run, which train wrote; with --ensemble, of cross_validate.",
        flag_values=values,
    )
    setup_flags.define_checkpoint(values)
    setup_flags.define_ensemble(values)
    flags.DEFINE_string(
        "input",
        None,
        "Volume, as a NIfTI file, OME-Zarr folder or folder of DICOM files; photo; array of a custom data set "
        "(.npy); or folder of cases, photos or arrays.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "output",
        None,
        "Segmentation to write (.nii, .nii.gz or .ome.zarr), or folder for the segmentations; for objects, a JSON file "
        "or a folder; for arrays, .npy, .npz or a folder.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "submission",
        False,
        "Write test-segmentation-N.nii, the format of the LiTS challenge, for a folder of test-volume-N.nii[.gz].",
        flag_values=values,
    )
    setup_flags.define_output_format(values)
    setup_flags.define_spacing_csv(values)
    flags.DEFINE_bool("overwrite", False, "Replace existing results.", flag_values=values)
    setup_flags.define(values, without=["micro_batches"])


def run(values: flags.FlagValues) -> str | None:
    known = read_spacing_table(values.spacing_csv)
    saved = setup_flags.saved_run(values)
    configuration = setup_flags.Configuration(values, saved / CONFIG, needs_job=True)
    weights_folder(saved, values.checkpoint)
    from mtf_imaging.kinds.all_kinds import open_subject
    from mtf_imaging.kinds.inference import Inference

    settings = Inference(
        resolution=values.resolution,
        spacing=values.spacing,
        ensemble=values.ensemble,
        submission=values.submission,
        output_format=values.output_format,
        spacing_table=known,
    )
    subject = open_subject(saved, settings)
    planned = subject.plan_predictions(values.input, values.output, values.overwrite)
    import_tensorflow()
    from mtf_imaging.cli.config.job import Job
    from mtf_imaging.jobs.predicting import predict

    setup = configuration.bind_together()
    predict(
        **Job().network,
        **setup.network,
        model_dir=values.model_dir,
        input=values.input,
        output=values.output,
        checkpoint=values.checkpoint,
        ensemble=values.ensemble,
        submission=values.submission,
        output_format=values.output_format,
        overwrite=values.overwrite,
        spacing_table=known,
        planned=planned,
    )
    return after_predict(subject.next_step(planned, Path(values.input), Path(values.output)))
