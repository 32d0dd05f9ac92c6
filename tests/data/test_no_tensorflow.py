import subprocess
import sys

LIGHT = (
    "mtf_imaging.data.cases, mtf_imaging.data.nifti, mtf_imaging.data.resample, mtf_imaging.data.phantom, "
    "mtf_imaging.data.manifest, mtf_imaging.data.intensity, mtf_imaging.evaluation.evaluate"
)


def test_all_but_records_and_training_batches_work_without_tensorflow():
    code = f"import sys, {LIGHT}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
