"""References for detectors in NumPy and plain TensorFlow, written from the descriptions of the methods.

The NumPy functions work on lists of boxes and loop over them, so they share no structure with the package.
"""

import itertools

import numpy as np
import tensorflow as tf


def anchors(height, width, stride, scales, ratios, size, image=None):
    """Returns the anchors of a feature map, [height, width, anchors, 4], by default of an image of whole strides."""
    rows, columns = image or (height * stride, width * stride)
    boxes = np.zeros((height, width, len(scales) * len(ratios), 4))
    for i, j in itertools.product(range(height), range(width)):
        for number, (scale, ratio) in enumerate(itertools.product(scales, ratios)):
            area = (size * scale * stride) ** 2
            box_height, box_width = (area / ratio) ** 0.5, (area * ratio) ** 0.5
            y, x = (i + 0.5) * rows / height, (j + 0.5) * columns / width
            boxes[i, j, number] = y - box_height / 2, x - box_width / 2, y + box_height / 2, x + box_width / 2
    return boxes


def network_anchors(network, height, width):
    """Returns the anchors of all levels of a `RetinaNet` for an image, a list of [height, width, anchors, 4]."""
    shapes = network.anchors
    sizes = [(level, -(-height // 2**level), -(-width // 2**level)) for level in network.pyramid.levels]
    return [
        anchors(h, w, 2**level, shapes.scales, shapes.ratios, shapes.size, (height, width)) for level, h, w in sizes
    ]


def intersection_over_union(box, other):
    sides = [min(box[i + 2], other[i + 2]) - max(box[i], other[i]) for i in (0, 1)]
    intersection = max(sides[0], 0) * max(sides[1], 0)
    area, other_area = ((b[2] - b[0]) * (b[3] - b[1]) for b in (box, other))
    union = area + other_area - intersection
    return intersection / union if union > 0 else 0.0


def match(boxes, objects, high, low):
    """Assigns objects to the anchors of one image.

    Args:
      boxes: the anchors of all levels, [anchors, 4].
      objects: {index: box} of the objects, without padding.
      high, low: thresholds of positive and negative anchors.

    Returns:
      The index of the object of each anchor (0 without objects), whether it is positive, and whether it is negative.
    """
    overlaps = {k: np.array([intersection_over_union(box, other) for box in boxes]) for k, other in objects.items()}
    forced = {}
    for index, values in overlaps.items():
        if values.max() > 0:
            forced.setdefault(int(np.flatnonzero(values == values.max())[0]), index)
    result = []
    for number in range(len(boxes)):
        best, index = 0.0, 0
        for candidate, values in overlaps.items():
            if values[number] > best:
                best, index = values[number], candidate
        is_forced = number in forced
        result.append((forced.get(number, index), is_forced or best >= high, not is_forced and best < low))
    return [np.array(column) for column in zip(*result)]


def encode(box, other):
    """Returns the deltas from an anchor to a box."""
    height, width = box[2] - box[0], box[3] - box[1]
    other_height, other_width = other[2] - other[0], other[3] - other[1]
    return np.array(
        [
            ((other[0] + other[2]) / 2 - (box[0] + box[2]) / 2) / height,
            ((other[1] + other[3]) / 2 - (box[1] + box[3]) / 2) / width,
            np.log(other_height / height),
            np.log(other_width / width),
        ]
    )


def decode(deltas, box):
    """Returns the box that has the deltas from an anchor."""
    height, width = box[2] - box[0], box[3] - box[1]
    y, x = (box[0] + box[2]) / 2 + deltas[0] * height, (box[1] + box[3]) / 2 + deltas[1] * width
    height, width = (size * min(np.exp(log), 1000 / 16) for size, log in zip((height, width), deltas[2:]))
    return np.array([y - height / 2, x - width / 2, y + height / 2, x + width / 2])


def focal(logits, present, alpha, gamma):
    """Returns the focal loss of each class, in plain TensorFlow; `present` is 1 or 0 for each class."""
    probability = tf.sigmoid(logits)
    right = tf.where(present > 0, probability, 1 - probability)
    weight = tf.where(present > 0, tf.constant(alpha, logits.dtype), tf.constant(1 - alpha, logits.dtype))
    return -weight * (1 - right) ** gamma * tf.math.log(right)


def huber(error, delta):
    """Returns the Huber loss, in plain TensorFlow."""
    size = tf.abs(error)
    return tf.where(size <= delta, error**2 / 2, delta * (size - delta / 2))


def losses(task, predictions, level_anchors, boxes, classes):
    """Returns the class loss and the box loss of a batch.

    Args:
      task: an `ObjectDetection`, of which only the settings are read.
      predictions: pairs (class logits, box deltas) of the levels, TensorFlow tensors.
      level_anchors: anchors of the levels, arrays [height, width, anchors, 4].
      boxes, classes: arrays, the objects.
    """
    flat = np.concatenate([level.reshape(-1, 4) for level in level_anchors])
    batch = len(classes)
    logits, deltas = (
        tf.concat([tf.reshape(level[i], [batch, -1, level[i].shape[-1]]) for level in predictions], 1) for i in (0, 1)
    )
    present, targets = np.zeros(logits.shape), np.zeros(deltas.shape)
    is_positive = np.zeros(deltas.shape[:2])
    for image in range(batch):
        objects = {k: boxes[image, k] for k in np.flatnonzero(classes[image] >= 0)}
        index, is_positive[image], _ = match(flat, objects, task.match_threshold, task.match_threshold)
        for number in np.flatnonzero(is_positive[image]):
            present[image, number, classes[image, index[number]]] = 1
            targets[image, number] = encode(flat[number], boxes[image, index[number]])
    normalizer = is_positive.sum() + 1
    class_loss = tf.reduce_sum(focal(logits, present, task.focal_alpha, task.focal_gamma)) / normalizer
    box_losses = huber(deltas - targets, task.huber_delta) * is_positive[..., np.newaxis]
    return class_loss, tf.reduce_sum(box_losses) / (4 * normalizer)


def highest_pairs(logits, number):
    """Returns a mask of the `number` highest logits of a level: [anchors, classes] -> bool [anchors, classes].

    Equal logits are ordered by the highest logit of their anchor, then by anchor and class.
    """
    rows, classes = logits.shape
    pairs = sorted(itertools.product(range(rows), range(classes)), key=lambda p: (-logits[p], -logits[p[0]].max(), *p))
    mask = np.zeros(logits.shape, bool)
    for pair in pairs[:number]:
        mask[pair] = True
    return mask


def suppress(boxes, scores, iou_threshold, score_threshold, number):
    """Returns the detections of an image, a list of (score, class, box) in descending order of the scores.

    Args:
      boxes: [candidates, 4]
      scores: [candidates, classes]
      iou_threshold, score_threshold, number: see `detections.non_maximum_suppression`.
    """
    kept = []
    for index, label in sorted(np.ndindex(*scores.shape), key=lambda pair: -scores[pair]):
        same = [box for _, other, box in kept if other == label]
        overlaps = [intersection_over_union(boxes[index], box) for box in same]
        if scores[index, label] > score_threshold and all(overlap <= iou_threshold for overlap in overlaps):
            kept.append((scores[index, label], label, boxes[index]))
    return kept[:number]


def detections(task, predictions, level_anchors, height, width):
    """Returns the detections of the images of a batch, as `suppress` does."""
    batch, results = len(predictions[0][0]), []
    for image in range(batch):
        boxes, scores = [], []
        for (logits, deltas), level in zip(predictions, level_anchors):
            logits = logits.numpy()[image].reshape(-1, logits.shape[-1])
            decoded = [decode(*pair) for pair in zip(deltas.numpy()[image].reshape(-1, 4), level.reshape(-1, 4))]
            boxes.append(np.clip(decoded, 0, [height, width, height, width]))
            scores.append(np.where(highest_pairs(logits, task.candidates), 1 / (1 + np.exp(-logits)), 0))
        thresholds = task.nms_threshold, task.score_threshold, task.max_detections
        results.append(suppress(np.concatenate(boxes), np.concatenate(scores), *thresholds))
    return results


class Reference:
    """The feature pyramid and the heads of a `RetinaNet`, with the weights of a program.

    Args:
      weights: {name of the program's variable: tensor}
      network: a `RetinaNet`, of which only the settings are read.
      is_training: whether norms use the statistics of the batch.

    Attributes:
      moving: {name: moving statistics after the call}, in training.
    """

    def __init__(self, weights, network, is_training):
        self.weights, self.network, self.is_training = weights, network, is_training
        self.moving = {}

    def conv(self, x, name, stride=1):
        kernel = self.weights[f"{name}/filter"]
        return tf.nn.conv2d(x, kernel, stride, "SAME") + self.weights[f"{name}/bias"]

    def norm(self, x, name):
        scale, offset, mean, variance = (
            self.weights[f"{name}/{key}"] for key in ("scale", "offset", "moving_mean", "moving_variance")
        )
        if self.is_training:
            now = tf.nn.moments(x, [0, 1, 2])
            momentum = self.network.norm_momentum
            for key, old, new in zip(("moving_mean", "moving_variance"), (mean, variance), now):
                self.moving[f"{name}/{key}"] = momentum * old + (1 - momentum) * new
            mean, variance = now
        return (x - mean) / tf.sqrt(variance + self.network.norm_epsilon) * scale + offset

    def pyramid(self, features):
        """Computes the levels from the features of the backbone."""
        first = self.network.min_level
        sums = [self.conv(x, f"fpn/lateral{first + i}") for i, x in enumerate(features)]
        for i in reversed(range(len(sums) - 1)):
            rows, columns = (np.arange(n) // 2 for n in sums[i].shape[1:3])
            sums[i] += tf.gather(tf.gather(sums[i + 1], rows, axis=1), columns, axis=2)
        levels = [self.conv(x, f"fpn/level{first + i}") for i, x in enumerate(sums)]
        for level in range(first + len(levels), self.network.max_level + 1):
            x = levels[-1] if len(levels) == len(features) else tf.nn.relu(levels[-1])
            levels.append(self.conv(x, f"fpn/level{level}", 2))
        return [self.norm(x, f"fpn/level{first + i}_norm") for i, x in enumerate(levels)]

    def head(self, x, name, level, outputs):
        for i in range(self.network.head_convs):
            x = self.conv(x, f"{name}_head/conv{i}")
            x = tf.nn.relu(self.norm(x, f"{name}_head/conv{i}_level{level}_norm"))
        x = self.conv(x, f"{name}_head/predictions")
        return tf.reshape(x, [*x.shape[:3], -1, outputs])

    def predictions(self, features, classes):
        """Computes a pair of class logits and box deltas for each level."""
        levels = enumerate(self.pyramid(features), self.network.min_level)
        return [(self.head(x, "class", level, classes), self.head(x, "box", level, 4)) for level, x in levels]
