"""The elementwise losses of detectors."""

import functools

import tensorflow as tf

import mtf_imaging as mi


def focal_loss(logits, classes, alpha=0.25, gamma=1.5):
    """Computes the focal loss (Lin et al. 2017) of independent sigmoids, summed over all classes.

    If p is the probability of the right answer, present or absent, the loss of a class is `-(1 - p)^gamma log(p)`,
    multiplied by `alpha` if the class is present and by `1 - alpha` if it is absent.

    All dimensions except the classes may be split. Only the logits are kept for the gradient.

    Args:
      logits: Tensor[..., classes]
      classes: int32 Tensor[...], the class that is present, or -1 for none.
      alpha: weight of the classes that are present, from 0 to 1.
      gamma: exponent, at least 0. Larger exponents reduce the loss of confident right answers.

    Returns:
      Tensor[...] with the shape of the classes, float32 or larger.
    """
    logits = mi.layers.widen(logits)
    fn = functools.partial(_focal_loss, alpha=alpha, gamma=gamma)
    dims = classes.shape.dims
    gradient = functools.partial(_focal_gradient, alpha=alpha, gamma=gamma)
    return mi.mtf.slicewise(fn, [logits, classes], classes.shape, logits.dtype, dims, gradient, name="focal_loss")


def _focal_gradient(op, dy, *, alpha, gamma):
    logits, classes = op.inputs
    fn = functools.partial(_focal_loss_dx, alpha=alpha, gamma=gamma)
    dims = classes.shape.dims
    dx = mi.mtf.slicewise(fn, [logits, classes, dy], logits.shape, logits.dtype, dims, name="focal_loss_dx")
    return [dx, None]


def _focal_loss(logits, classes, alpha, gamma):
    wrong, weight = _wrong_logits(logits, classes, alpha)
    return tf.reduce_sum(weight * _power(wrong, gamma) * tf.math.softplus(wrong), -1)


def _focal_loss_dx(logits, classes, dy, alpha, gamma):
    wrong, weight = _wrong_logits(logits, classes, alpha)
    slope = _power(wrong, gamma) * (gamma * tf.sigmoid(-wrong) * tf.math.softplus(wrong) + tf.sigmoid(wrong))
    is_present = tf.one_hot(classes, logits.shape[-1], dtype=logits.dtype)
    return weight * slope * (1 - 2 * is_present) * dy[..., tf.newaxis]


def _wrong_logits(logits, classes, alpha):
    """Returns the logits of the wrong answers, and the weights of the classes."""
    is_present = tf.one_hot(classes, logits.shape[-1], dtype=logits.dtype)
    return logits * (1 - 2 * is_present), 1 - alpha + (2 * alpha - 1) * is_present


def _power(wrong, gamma):
    """Returns `sigmoid(wrong)^gamma`. Very small powers become 0, and have finite gradients."""
    return tf.exp(-gamma * tf.math.softplus(-wrong))


def huber_loss(predictions, targets, delta):
    """Computes the Huber loss: `e^2 / 2` for errors up to `delta`, and `delta (|e| - delta / 2)` for larger ones.

    Args:
      predictions: Tensor[...]
      targets: Tensor[...] with the shape of the predictions.
      delta: the error at which the loss becomes linear, above 0.

    Returns:
      Tensor[...] of the same shape, float32 or larger.
    """
    predictions = mi.layers.widen(predictions)
    error = mi.mtf.abs(predictions - mi.mtf.cast(targets, predictions.dtype))
    square = mi.mtf.minimum(error, delta)
    return square * square * 0.5 + (error - square) * delta
