"""The signatures of a network for arrays: names of dimensions, and dtypes under every dtype of a job."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging import mtf
from mtf_imaging.evaluation.export.networks import TrainedNetworks
from mtf_imaging.kinds.arrays.signatures import ArraySignatures
from mtf_imaging.training.checkpoints import Checkpoints
from mtf_imaging.training.prediction import predictor

SIZES = (4, 3, 2)


class Parts:
    """Returns probabilities, the class of each voxel, and the mean of each plane."""

    def inputs(self, batch_size, sizes, *, dtype, labels):
        return {"image": ("batch:{},x:{},y:{},z:{},channels:1".format(batch_size, *sizes), dtype)}

    def loss(self, image):
        return mtf.reduce_mean(self.predict(image)["planes"]), {}

    def predict(self, image):
        classes = mtf.Dimension("classes", 2)
        shape = mtf.Shape([image.shape.dims[-1], classes])
        weights = mtf.get_variable(
            image.mesh,
            "weights",
            shape,
            dtype=mi.ops.master_dtype(image.dtype),
            initializer=tf.constant_initializer([[0.3, -0.7]]),
        )
        logits = mtf.einsum([image, mtf.cast(weights, image.dtype)], mtf.Shape([*image.shape.dims[:-1], classes]))
        probabilities = mi.ops.softmax(logits, classes)
        planes = mtf.reduce_mean(image, output_shape=mtf.Shape([image.shape.dims[0], image.shape.dims[3]]))
        return {"probabilities": probabilities, "labels": mtf.argmax(logits, classes), "planes": planes}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_outputs_name_their_dimensions_and_are_float32(tmp_path, dtype):
    program = mi.Program(Parts().predict, Parts().inputs(1, SIZES, dtype=dtype, labels=False))
    Checkpoints(tmp_path, program).save()
    networks = TrainedNetworks(Parts(), [SIZES], [tmp_path], "last", dtype)
    (signature,) = ArraySignatures(networks, [SIZES]).signatures()
    assert [*map(str, (*signature.inputs, *signature.outputs))] == [
        "image: float32 [x: 4, y: 3, z: 2, channels: 1]",
        "probabilities: float32 [x: 4, y: 3, z: 2, classes: 2]",
        "labels: int32 [x: 4, y: 3, z: 2]",
        "planes: float32 [z: 2]",
    ]
    image = np.random.default_rng(0).normal(size=(*SIZES, 1)).astype(np.float32)
    found = signature.function()(image=tf.constant(image))
    expected = predictor(task=Parts(), sizes=SIZES, model_dir=tmp_path, dtype=dtype)(image)
    for name, array in expected.items():
        assert found[name].dtype == (tf.int32 if name == "labels" else tf.float32)
        np.testing.assert_array_equal(found[name], array.astype(found[name].dtype.as_numpy_dtype))
