"""The features of a backbone whose batch norms are not trained."""

import mtf_imaging as mi

_OF_NORMS = ("scale", "offset", "moving_mean", "moving_variance")


def frozen_features(backbone, image, is_training):
    """Computes the features of a backbone with the moving statistics of its batch norms, in training as well.

    The moving statistics, the scales and the offsets of the norms do not change. All other weights are trained.

    Args:
      backbone: an object with a method `features(image, is_training)`.
      image: Tensor[batch, height, width, channels]
      is_training: whether the backbone trains its other weights. It then recomputes activations if it is configured to
          do so.

    Returns:
      The result of `backbone.features`.
    """
    with mi.ops.freezing.freezing(image.mesh.graph, _is_of_norm):
        return backbone.features(image, is_training)


def _is_of_norm(name):
    return name.rpartition("/")[2] in _OF_NORMS
