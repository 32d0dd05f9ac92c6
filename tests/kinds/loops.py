"""Predicts and evaluates images with any network, in the loops of the commands `predict` and `evaluate`."""

from pathlib import Path

from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.batches import batch_network
from mtf_imaging.kinds.loop import evaluate_images, follow, predict_images
from mtf_imaging.kinds.objects.infer import ObjectInference
from mtf_imaging.kinds.prediction_record import PredictionRecord
from mtf_imaging.settings.inference import EvaluateSettings


def predict(images, input_path, output_path, network, progress=False, overwrite=False, planned=None, record=None):
    """Predicts images, and returns the files; processes other than the first only compute their part.

    Args:
      images: the images of a kind.
      input_path, output_path, progress, overwrite: the settings of `predict`.
      network: the network.
      planned: the images and files, from `plan_predictions`; None finds them.
      record: the record of complete predictions; None predicts all images, and writes no record.
    """
    own, input_path, output_path = groups.current(), Path(input_path), Path(output_path)
    planned = planned or images.plan_predictions(input_path, output_path, overwrite or not own.is_first)
    if not own.is_first:
        follow(images, [image for image, _ in planned.pairs], network)
        return []
    files = images.prediction_files(planned.pairs, input_path, output_path)
    record = record or PredictionRecord(files._replace(folder=None))
    faults = CaseFaults(own.num > 1, planned.faults)
    predict_images(images, planned, files, network, record, faults, progress)
    faults.check([*planned.faults, *(image.key for image, _ in planned.pairs)], images.nouns)
    written = images.written(planned, files)
    if progress:
        print(images.instructions(written))
    return written


def detect_one(pixels, network, *options, **more):
    """Returns the detections in one image; the options are the arguments of `ObjectInference`."""
    return ObjectInference(*options, **more).predict([pixels], batch_network(network))[0]


def evaluate(images, input_dir, output_dir, network, cases=None, provenance=None, **settings):
    """Predicts and scores images, and returns the scores; processes other than the first only compute their part.

    Args:
      images: the images of a kind.
      input_dir, output_dir: the settings of `evaluate`.
      network: the network.
      cases: the images to evaluate; None finds them.
      provenance: the provenance of the scores; None for none.
      **settings: other settings of `evaluate`.
    """
    cases = images.find_labeled(input_dir, output_dir) if cases is None else cases
    if not groups.current().is_first:
        follow(images, cases, network)
        return []
    own = EvaluateSettings(input_dir=input_dir, output_dir=output_dir, model_dir="run", task=None, **settings)
    return evaluate_images(images, cases, network, own, provenance or Provenance())
