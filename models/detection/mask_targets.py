"""The masks that the mask head learns: the masks of the matched objects, cropped to the RoIs."""

import tensorflow as tf

import mtf_imaging as mi


def mask_targets(masks, objects, matches, rois, size):
    """Crops the matched object's mask to each RoI, and resizes it to `size` x `size` bins.

    The mask is interpolated linearly between the centers of its pixels. Outside the object's box, it is 0. The value of
    a bin is 1 if the mask is at least 1/2 at the center of the bin, and otherwise 0.

    Args:
      masks: Tensor[batch, boxes, mask_height, mask_width], the mask of each object within its box.
      objects: Tensor[batch, rois, coords], the box of the matched object.
      matches: int32 Tensor[batch, rois], the index of the matched object.
      rois: Tensor[batch, rois, coords]
      size: number of bins along each axis.

    Returns:
      Tensor[batch, rois, mask_height, mask_width] of 0 and 1, without gradients. The RoIs may be split.
    """
    batch, rois_dim = rois.shape.dims[:2]
    grid = [mi.mtf.Dimension(dim.name, size) for dim in masks.shape.dims[-2:]]

    def crop(masks, objects, matches, rois):
        matched = tf.gather(masks, matches, batch_dims=1)
        rows, columns = (
            _bin_weights(objects[..., axis::2], rois[..., axis::2], size, pixels)
            for axis, pixels in enumerate(masks.shape[-2:])
        )
        return tf.cast(tf.matmul(tf.matmul(rows, matched), columns, transpose_b=True) >= 0.5, matched.dtype)

    inputs = [mi.mtf.stop_gradient(masks), mi.mtf.stop_gradient(objects), matches, mi.mtf.stop_gradient(rois)]
    shape = mi.mtf.Shape([batch, rois_dim, *grid])
    targets = mi.mtf.slicewise(crop, inputs, shape, masks.dtype, [batch, rois_dim], name="mask_targets")
    return mi.mtf.stop_gradient(targets)


def _bin_weights(objects, rois, size, pixels):
    """Returns the weights of mask pixels in each bin along one axis.

    Args:
      objects: `[batch, rois, 2]`, begin and end of the mask boxes.
      rois: `[batch, rois, 2]`, begin and end of the RoIs.
      size: number of bins.
      pixels: number of pixels of a mask.

    Returns:
      `[batch, rois, size, pixels]`, with at most two nonzero weights per bin.
    """
    dtype = rois.dtype
    centers = rois[..., :1] + (tf.range(size, dtype=dtype) + 0.5) / size * (rois[..., 1:] - rois[..., :1])
    inside = tf.math.divide_no_nan(centers - objects[..., :1], objects[..., 1:] - objects[..., :1])
    distances = inside[..., None] * pixels - 0.5 - tf.range(pixels, dtype=dtype)
    return tf.maximum(1 - tf.abs(distances), 0)
