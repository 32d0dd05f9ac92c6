"""A task and a data set of one's own, on arrays that no other kind of data reads."""

import gin
import numpy as np

import mtf_imaging as mi
from tests.jobs.photo_network import TwoConvs

SHAPE = (12, 8, 3)
GIN = """
import tests.golden.array_network

job.task = @ArrayTask()
job.dtype = "float64"
train.data = @Waves()
setup.batch_size = 2
train.optimizer = @Adam()
"""


@gin.configurable
class Waves:
    """Random images, whose targets are the sums of their channels."""

    def sizes(self, data_dir):
        return SHAPE[:2]

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        while True:
            image = np.random.default_rng([seed, start_step]).normal(size=(batch_size, *sizes, SHAPE[2]))
            yield {"image": image, "target": image.sum(-1), "cases": [f"{start_step}-{n}" for n in range(batch_size)]}
            start_step += 1


@gin.configurable
class ArrayTask:
    """Predicts the targets.

    Args:
      several: whether to predict several arrays.
    """

    def __init__(self, several=False):
        self.several, self.network = several, TwoConvs(classes=2)

    def inputs(self, batch_size, sizes, *, dtype, labels):
        image = f"batch:{batch_size},height:{sizes[0]},width:{sizes[1]}"
        return {"image": (f"{image},channels:{SHAPE[2]}", dtype)} | ({"target": (image, dtype)} if labels else {})

    def loss(self, image, target):
        return mi.mtf.reduce_mean(mi.mtf.square(self._sum(self.network(image, True)) - target)), {}

    def predict(self, image):
        outputs = self.network(image, False)
        return {"sum": self._sum(outputs), "parts": outputs} if self.several else self._sum(outputs)

    def _sum(self, outputs):
        return mi.mtf.reduce_sum(outputs, reduced_dim=outputs.shape.dims[-1])
