"""A tiny task that detects objects, and gin files and folders for tests of the jobs on objects."""

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.kinds.objects.description import ObjectDescription
from tests.kinds.coco_folder import make_annotation, make_fields, write_folder

CATEGORIES = ObjectDescription(((1, "cup"), (3, "fork")))
GIN = """
import tests.jobs.object_network

job.task = @TinyDetection()
job.dtype = "float64"

train.data = @Objects()
Objects.size = (16, 24)
Objects.max_boxes = 3
setup.batch_size = 2
train.num_steps = 4
train.checkpoint_every = 2
train.optimizer = @Adam()
Adam.learning_rate = 0.01
"""


@gin.configurable
class TinyDetection:
    """Predicts three boxes from the mean of a convolution over the image.

    Args:
      masks: whether to predict masks, too.
      categories: the number of categories.
    """

    def __init__(self, masks=False, categories=None, max_boxes=3):
        self.masks, self.categories, self.max_boxes = masks, categories, max_boxes

    def for_data(self, description):
        categories = getattr(description, "categories", None)
        if categories is None:
            raise mi.ConfigError(f"TinyDetection: detects objects, not {type(description).__name__}. Fix: use Objects.")
        return TinyDetection(self.masks, len(categories), self.max_boxes)

    def inputs(self, batch_size, sizes, *, dtype, labels):
        height, width = sizes
        image = {"image": (f"batch:{batch_size},height:{height},width:{width},channels:3", dtype)}
        boxes = f"batch:{batch_size},boxes:{self.max_boxes}"
        labeled = {"boxes": (f"{boxes},coords:4", "float32"), "classes": (boxes, "int32")}
        if self.masks:
            labeled["masks"] = (f"{boxes},mask_height:112,mask_width:112", "float32")
        return image | (labeled if labels else {})

    def loss(self, image, boxes, classes, masks=None):
        prediction = self._network(image)
        target = mi.mtf.cast(mi.mtf.reduce_mean(boxes, reduced_dim=boxes.shape.dims[1]), image.dtype)
        box_loss = mi.mtf.reduce_mean(mi.mtf.square(prediction["boxes"] - target)) / 100
        is_object = mi.mtf.cast(mi.mtf.greater_equal(classes, 0), image.dtype)
        score_loss = mi.mtf.square(mi.mtf.reduce_mean(prediction["scores"]) - mi.mtf.reduce_mean(is_object))
        class_loss = mi.mtf.reduce_mean(mi.mtf.square(prediction["logits"])) / 100
        loss = box_loss + score_loss + class_loss
        if masks is not None:
            mean = mi.mtf.reduce_mean(mi.mtf.cast(masks, image.dtype))
            loss += mi.mtf.square(mi.mtf.reduce_mean(prediction["masks"]) - mean)
        return loss, {"box_loss": box_loss}

    def predict(self, image):
        prediction = self._network(image)
        logits = prediction.pop("logits")
        classes = mi.mtf.argmax(logits, logits.shape.dims[-1])
        return {**prediction, "classes": classes}

    def _network(self, image):
        height, width = (dim.size for dim in image.shape.dims[1:3])
        kernel = _variable(image, "kernel", [("fh", 3), ("fw", 3), ("channels", 3), ("filters", 4)])
        features = mi.ops.leaky_relu(mi.ops.conv2d(image, kernel, name="conv"), 0.1)
        means = mi.mtf.reduce_mean(features, output_shape=[features.shape.dims[0], features.shape.dims[-1]])
        channels = means.shape.dims[-1]

        def head(name, *dims):
            weights = _variable(image, name, [(channels.name, channels.size), ("detections", 3), *dims])
            bias = _variable(image, f"{name}_bias", [("detections", 3), *dims])
            return mi.mtf.einsum([means, weights], output_shape=[means.shape.dims[0], *bias.shape.dims]) + bias

        corners = mi.mtf.sigmoid(head("corners", ("coords", 4)))
        low, high = (mi.mtf.slice(corners, begin, 2, "coords") for begin in (0, 2))
        scale = mi.mtf.constant(image.mesh, [height, width], shape=[low.shape.dims[-1]], dtype=image.dtype)
        boxes = mi.mtf.concat([low * scale / 2, (1 + high) * scale / 2], "coords")
        result = {
            "boxes": boxes,
            "scores": mi.mtf.sigmoid(head("scores")),
            "logits": head("classes", ("classes", self.categories)),
        }
        if self.masks:
            result["masks"] = mi.mtf.sigmoid(head("masks", ("mask_height", 4), ("mask_width", 4)))
        return result


def _variable(image, name, dims):
    shape = mi.mtf.Shape([mi.mtf.Dimension(*dim) for dim in dims])
    initializer = tf.compat.v1.random_normal_initializer(stddev=0.5)
    variable = mi.mtf.get_variable(
        image.mesh, name, shape, dtype=mi.ops.master_dtype(image.dtype), initializer=initializer
    )
    return mi.mtf.cast(variable, image.dtype)


TRAIN_SIZES = ((20, 30), (17, 23), (12, 40), (33, 20))
VAL_SIZES = ((24, 24), (18, 40), (20, 20))


def write_objects_folder(folder):
    """Writes four images to train on and three held-out ones; the last image of each split has no objects."""
    train = [
        make_annotation(1, 11, 1, (2, 3, 20, 12)),
        make_annotation(2, 11, 3, (14, 8, 12, 10)),
        make_annotation(3, 12, 3, (4, 2, 10, 11)),
        make_annotation(4, 13, 1, (10, 1, 20, 10)),
    ]
    write_folder(folder, make_fields(TRAIN_SIZES, train), "train")
    val = [
        make_annotation(11, 21, 1, (3, 3, 14, 15)),
        make_annotation(12, 21, 3, (10, 2, 11, 20)),
        make_annotation(13, 22, 3, (5, 4, 25, 12)),
        make_annotation(14, 22, 1, (1, 1, 30, 6), is_crowd=1, segmentation={"size": [18, 40], "counts": [20, 30, 670]}),
    ]
    fields = make_fields(VAL_SIZES, val)
    for number, entry in enumerate(fields["images"]):
        entry |= {"id": 21 + number, "file_name": f"q{number}.png"}
    write_folder(folder, fields, "val")
    return folder
