"""Segments a large volume with windows, and kills this process at a window."""

import os
import signal
import sys

import numpy as np

from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.files import blocks
from mtf_imaging.inference.network import of_function
from mtf_imaging.inference.sliding import sliding
from mtf_imaging.inference.windows import SlidingWindow
from tests.kinds.volumes import predict_cases

SAMPLING = Sampling((24, 9, 8), (1.5, 1.5, 2.0))


def segment(path, output, kill_at=None):
    """Segments a volume, and returns the number of windows."""
    calls = 0

    def probabilities(image):
        nonlocal calls
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
        noise = np.random.default_rng([*image.tobytes()[:400]]).random((*image.shape[:3], 3), np.float32)
        return noise + image * np.arange(3, dtype=np.float32)

    network = sliding(of_function(probabilities, 1, 3), SlidingWindow((7, 6, 5)))
    predict_cases(path, output, SAMPLING, network, progress=False, overwrite=True)
    return calls


if __name__ == "__main__":
    blocks.IN_MEMORY = 0
    segment(*sys.argv[1:3], int(sys.argv[3]))
