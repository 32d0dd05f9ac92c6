"""The picture of the README: a CT, its slices with their halos, and its segmentation."""

import numpy as np
from PIL import Image

from benchmarks.segmented_slices_picture import draw


def test_the_slices_have_halos_and_the_labels_have_colors(tmp_path):
    image, labels = np.full((32, 32), 240.0), np.zeros((32, 32))  # a white image
    labels[8:24, 8:24], labels[12:16, 12:16] = 1, 2
    draw(image, labels, (2.0, 2.0), tmp_path / "picture.png")
    pixels = np.asarray(Image.open(tmp_path / "picture.png").convert("RGB")).astype(int)
    plain, split, segmented = np.array_split(pixels[45:-3], 3, axis=1)

    def blue(third):
        return third[..., 2] - third[..., 0] > 60

    assert not blue(plain).any()
    # 12 inner borders of 16 voxels with a halo on both sides, of 64 x 64 voxels and the gaps
    assert 0.08 < blue(split).mean() < 0.14
    assert blue(segmented).any()
    assert (segmented[..., 0] - segmented[..., 2] > 60).any()
