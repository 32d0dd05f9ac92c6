import subprocess
import sys

LIGHT = (
    "mtf_imaging.data.cases.cases, mtf_imaging.data.reading.open_sources, mtf_imaging.data.sampling.slabs, "
    "mtf_imaging.data.phantom, mtf_imaging.data.records.manifest, mtf_imaging.data.intensities.schemes, "
    "mtf_imaging.kinds.photos.reading.label_images, mtf_imaging.kinds.photos.resize, "
    "mtf_imaging.kinds.photos.scenes, mtf_imaging.kinds.objects.reading.annotations, "
    "mtf_imaging.kinds.objects.reading.targets, mtf_imaging.kinds.objects.reading.native, "
    "mtf_imaging.kinds.objects.generator, "
    "mtf_imaging.kinds.volumes.evaluate"
)


def test_all_but_records_and_training_batches_work_without_tensorflow():
    code = f"import sys, {LIGHT}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
