"""A tiny network for photos, and gin files and folders for tests of the jobs on photos."""

import gin
import numpy as np
import tensorflow as tf
from PIL import Image

import mtf_imaging as mi
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.label_images import write_label_image

CLASSES = PhotoDescription(("ground", "box", "sky"), ((0, 0, 0), (200, 60, 60), (60, 60, 200)))
GIN = """
import mtf_imaging.models.deeplab
import tests.jobs.photo_network

job.task = @SemanticSegmentation()
job.dtype = "float64"
SemanticSegmentation.network = @TwoConvs()

train.data = @Photos()
Photos.size = (16, 24)
Photos.augmentation = @PhotoAugmentation()
setup.batch_size = 2
train.num_steps = 4
train.checkpoint_every = 2
train.optimizer = @Adam()
Adam.learning_rate = 0.01
"""


@gin.configurable
class TwoConvs:
    """Two convolutions, the first of which has a dilation.

    Attributes:
      multiple: photos larger than the crop are padded to a multiple of this size.
    """

    def __init__(self, classes=None, multiple=8):
        self.classes, self.multiple = classes, multiple

    def with_classes(self, classes):
        return TwoConvs(classes, self.multiple)

    def __call__(self, image, is_training):
        features = mi.ops.leaky_relu(_conv(image, "features", mi.mtf.Dimension("filters", 4), 2), 0.1)
        features = mi.mtf.rename_dimension(features, "filters", "channels")
        return _conv(features, "classes", mi.mtf.Dimension("classes", self.classes), 1)


def _conv(x, name, out, dilation):
    shape = mi.mtf.Shape([mi.mtf.Dimension("fh", 3), mi.mtf.Dimension("fw", 3), x.shape.dims[-1], out])
    initializer = tf.compat.v1.glorot_uniform_initializer()
    kernel = mi.mtf.get_variable(x.mesh, name, shape, dtype=mi.ops.master_dtype(x.dtype), initializer=initializer)
    return mi.ops.conv2d(x, mi.mtf.cast(kernel, x.dtype), dilations=dilation, name=name)


def write_photos(folder, number=6, sizes=((20, 30), (17, 23), (12, 40)), lists=True):
    """Writes a folder of pairs: images, labels, lists and classes.json; sizes of the photos take turns."""
    rng = np.random.default_rng(number)
    for name in ("images", "labels", *(["splits"] if lists else [])):
        (folder / name).mkdir(parents=True)
    keys = [f"photo_{n}" for n in range(number)]
    for n, key in enumerate(keys):
        height, width = sizes[n % len(sizes)]
        labels = np.zeros((height, width), np.uint8)
        labels[: height // 3] = 2
        labels[height // 2 : height - 3, 4 + n : 11 + n] = 1
        labels[height // 2 - 1, 4 + n : 11 + n] = CLASSES.ignore_label
        colors = np.array([*CLASSES.colors, *[(0, 0, 0)] * 253], np.float64)
        pixels = np.clip(colors[labels] + rng.normal(40, 20, (height, width, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{key}.png")
        write_label_image(folder / "labels" / f"{key}.png", labels, CLASSES)
    fields = '{"classes": {"ground": [0, 0, 0], "box": [200, 60, 60], "sky": [60, 60, 200]}}'
    (folder / "classes.json").write_text(fields)
    if lists:
        (folder / "splits/train.txt").write_text("\n".join(keys[:-2]))
        (folder / "splits/val.txt").write_text("\n".join(keys[-2:]))
    return folder
