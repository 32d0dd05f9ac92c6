"""`mtf-imaging predict`: segments volumes or photos, or detects objects in images, with a trained network."""

import shlex

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.config.groups import SETUP
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.kinds.all_kinds import open_subject, with_kinds
from mtf_imaging.settings.inference import PredictSettings

SUMMARY = "segments a volume, a photo or a folder of them, or detects objects in images."
EXAMPLE = "mtf-imaging predict --model_dir run --input volume-3.nii.gz --output segmentation-3.nii.gz"
SETTINGS = (with_kinds(PredictSettings), setup_flags.ImportedNetworkFlags)
INSTEAD = {"model_dir": "network"}
WITHOUT = ("micro_batches", "xla")
IDLE = {"batch_size": "predict has --eval_batch_size."}
NOTES = (
    "If some predictions of a folder exist, those that the same network made with the same settings are kept, and the "
    "others are made; predictions.jsonl in the folder records them. Other files are replaced only with --overwrite.",
    "To segment a series of DICOM files, give its folder: mtf-imaging predict --model_dir run --input patient/series "
    "--output segmentation.nii.gz. To segment all cases of a folder as OME-Zarr: mtf-imaging predict --model_dir run "
    "--input cases --output segmentations --output_format ome-zarr. docs/guides/image_formats.md has more.",
    "--probabilities and --uncertainty write maps beside each segmentation; docs/guides/uncertainty.md explains them.",
)


def run(values: flags.FlagValues) -> str:
    given = FlagSettings(values, *SETTINGS, *SETUP)
    given.spacing_table = read_spacing_table(values.spacing_csv)
    saved, configuration = setup_flags.saved_run(values)
    from mtf_imaging.kinds.image_settings import Inference

    subject = open_subject(saved, with_kinds(Inference).of(given), values.input)
    planned = subject.plan_predictions(values.input, values.output, values.overwrite)
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_settings
    from mtf_imaging.jobs.predicting import predict

    setup = configuration.bind_together()
    own = {"spacing_table": given.spacing_table, "planned": planned}
    predict(**bound_settings(SETTINGS[0], setup, values, **own))
    return f"open {shlex.quote(values.output)} in a viewer of its format, for instance 3D Slicer for volumes"
