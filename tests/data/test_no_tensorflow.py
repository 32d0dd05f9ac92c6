import subprocess
import sys

LIGHT = (
    "mtf_imaging.data.cases.cases, mtf_imaging.data.reading.images, mtf_imaging.data.sampling.resample, "
    "mtf_imaging.data.phantom, mtf_imaging.data.records.manifest, mtf_imaging.data.intensity, "
    "mtf_imaging.data.photos.label_images, mtf_imaging.data.photos.native, mtf_imaging.data.photos.scenes, "
    "mtf_imaging.data.objects.annotations, mtf_imaging.data.objects.targets, mtf_imaging.data.objects.native, "
    "mtf_imaging.data.objects.generator, "
    "mtf_imaging.evaluation.evaluate"
)


def test_all_but_records_and_training_batches_work_without_tensorflow():
    code = f"import sys, {LIGHT}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
