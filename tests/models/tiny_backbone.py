"""A backbone of three convolutions with ReLUs, so that tests of the networks on it are quick."""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi


@dataclasses.dataclass(frozen=True)
class TinyBackbone:
    """Features at stride 4 and at the output stride, a multiple of 4.

    Attributes:
      output_stride: stride of the last features.
      filters: numbers of filters of the three convolutions.
    """

    output_stride: int = 4
    filters: tuple[int, int, int] = (3, 4, 5)

    def features(self, image, is_training):
        """Computes the features, which have no norms: image -> (Tensor at stride 4, Tensor at the output stride)."""
        del is_training
        x = _conv_relu(image, "tiny/conv0", self.filters[0], 2)
        low_level = _conv_relu(x, "tiny/conv1", self.filters[1], 2)
        return low_level, _conv_relu(low_level, "tiny/conv2", self.filters[2], self.output_stride // 4)

    @property
    def strides(self):
        """The strides of the features."""
        return 4, self.output_stride

    def reference(self, image, weights):
        """Computes the same in plain TensorFlow."""
        x = image
        maps = []
        for name, stride in (("conv0", 2), ("conv1", 2), ("conv2", self.output_stride // 4)):
            x = tf.nn.relu(tf.nn.conv2d(x, weights[f"tiny/{name}/filter"], stride, "SAME"))
            maps.append(x)
        return maps[1:]


def _conv_relu(x, name, filters, stride):
    dims = [mi.mtf.Dimension("kernel_height", 3), mi.mtf.Dimension("kernel_width", 3), x.shape.dims[-1]]
    with tf.compat.v1.variable_scope(name):
        shape = mi.mtf.Shape([*dims, mi.mtf.Dimension("filters", filters)])
        initializer = tf.compat.v1.variance_scaling_initializer(2.0, "fan_in")
        kernel = mi.mtf.get_variable(
            x.mesh, "filter", shape, dtype=mi.ops.master_dtype(x.dtype), initializer=initializer
        )
        y = mi.ops.conv2d(x, mi.mtf.cast(kernel, x.dtype), strides=stride, name=name)
    return mi.ops.leaky_relu(mi.mtf.rename_dimension(y, "filters", "channels"), 0.0)
