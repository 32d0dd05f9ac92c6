"""The smallest networks that segment photos and detect objects: they train in seconds."""

import gin
import tensorflow as tf

import mtf_imaging as mi


@gin.configurable
class OneConv:
    """A convolution from colors to classes.

    Args:
      classes: number of classes; the task sets it.
    """

    multiple = 8

    def __init__(self, classes=None):
        self.classes = classes

    def with_classes(self, classes):
        return OneConv(classes)

    def __call__(self, image, is_training):
        kernel = _variable(image, "kernel", [("fh", 3), ("fw", 3), ("channels", 3), ("classes", self.classes)])
        return mi.ops.conv2d(image, kernel, name="conv")


@gin.configurable
class FixedBoxes:
    """Predicts the same boxes for every image, with scores from its mean color.

    Args:
      categories: number of categories; the data set sets it.
      max_boxes: largest number of boxes in an image, as in the data set.
    """

    def __init__(self, categories=None, max_boxes=3):
        self.categories, self.max_boxes = categories, max_boxes

    def for_data(self, description):
        return FixedBoxes(len(description.categories), self.max_boxes)

    def inputs(self, batch_size, sizes, *, dtype, labels):
        height, width = sizes
        boxes = f"batch:{batch_size},boxes:{self.max_boxes}"
        targets = {"boxes": (f"{boxes},coords:4", "float32"), "classes": (boxes, "int32")}
        image = f"batch:{batch_size},height:{height},width:{width},channels:3"
        return {"image": (image, dtype)} | (targets if labels else {})

    def loss(self, image, boxes, classes):
        prediction = self._network(image)
        error = mi.mtf.reduce_mean(prediction["boxes"]) - mi.mtf.cast(mi.mtf.reduce_mean(boxes), image.dtype)
        logits = mi.mtf.reduce_mean(mi.mtf.square(prediction["logits"]))
        scores = mi.mtf.reduce_mean(mi.mtf.square(prediction["scores"]))
        return mi.mtf.square(error) / 1000 + logits + scores, {}

    def predict(self, image):
        prediction = self._network(image)
        logits = prediction.pop("logits")
        return {**prediction, "classes": mi.mtf.argmax(logits, logits.shape.dims[-1])}

    def _network(self, image):
        means = mi.mtf.reduce_mean(image, output_shape=[image.shape.dims[0], image.shape.dims[-1]])

        def head(name, *dims):
            weights = _variable(image, name, [("channels", 3), ("detections", 3), *dims])
            batch = image.shape.dims[0]
            return mi.mtf.einsum([means, weights], output_shape=[batch, *weights.shape.dims[1:]])

        height, width = (dim.size for dim in image.shape.dims[1:3])
        corners = mi.mtf.sigmoid(head("corners", ("coords", 4)))
        low, high = (mi.mtf.slice(corners, begin, 2, "coords") for begin in (0, 2))
        sizes = mi.mtf.constant(image.mesh, [height, width], shape=[low.shape.dims[-1]], dtype=image.dtype)
        return {
            "boxes": mi.mtf.concat([low * sizes / 2, (1 + high) * sizes / 2], "coords"),
            "scores": mi.mtf.sigmoid(head("scores")),
            "logits": head("logits", ("classes", self.categories)),
        }


def _variable(image, name, dims):
    shape = mi.mtf.Shape([mi.mtf.Dimension(*dim) for dim in dims])
    initializer = tf.compat.v1.random_normal_initializer(stddev=0.1)
    dtype = mi.ops.master_dtype(image.dtype)
    return mi.mtf.cast(mi.mtf.get_variable(image.mesh, name, shape, dtype=dtype, initializer=initializer), image.dtype)
