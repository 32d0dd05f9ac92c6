"""The features of a backbone whose batch norms are not trained."""

import tensorflow as tf

import mtf_imaging as mi

_TRAINED = ("scale", "offset")  # the variables of a batch norm that training would change


def frozen_features(backbone, image, is_training):
    """Computes the features of a backbone with the moving statistics of its batch norms, in training as well.

    Neither the moving statistics nor the scales and offsets of the norms are trained. All other weights are.

    Args:
      backbone: an object with a method `features(image, is_training)`.
      image: Tensor[batch, height, width, channels]
      is_training: whether the backbone trains its other weights. It then recomputes activations if it is set to.

    Returns:
      The result of `backbone.features`.
    """
    graph = image.mesh.graph
    earlier = set(graph.name_to_variable)
    scope = tf.compat.v1.get_variable_scope()
    with tf.compat.v1.variable_scope(scope, custom_getter=_get_frozen), mi.ops.inference.inference():
        features = backbone.features(image, is_training)
    own = [variable for name, variable in graph.name_to_variable.items() if name not in earlier]
    graph.make_variables_untrainable([variable for variable in own if _is_trained_by_norm(variable.name)])
    return features


def _get_frozen(getter, name, *args, trainable=True, **kwargs):
    return getter(name, *args, trainable=trainable and not _is_trained_by_norm(name), **kwargs)


def _is_trained_by_norm(name):
    return name.rpartition("/")[2] in _TRAINED
