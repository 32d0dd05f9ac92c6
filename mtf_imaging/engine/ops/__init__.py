"""Operations on named tensors.

Every operation returns the values and gradients of the corresponding TensorFlow operation on the whole tensor, under
every legal layout.
"""

from mtf_imaging.engine.ops.activation import dropout, leaky_relu, relu
from mtf_imaging.engine.ops.bias import add_bias
from mtf_imaging.engine.ops.conv.convolution import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
)
from mtf_imaging.engine.ops.conv.separable import separable_conv2d, separable_conv3d
from mtf_imaging.engine.ops.detection.roi_align import roi_align
from mtf_imaging.engine.ops.detection.suppression import combined_non_max_suppression
from mtf_imaging.engine.ops.detection.top_k import top_k
from mtf_imaging.engine.ops.losses.cross_entropy import softmax, sparse_softmax_cross_entropy, weighted_cross_entropy
from mtf_imaging.engine.ops.losses.dice import adaptive_dice_loss, dice_loss
from mtf_imaging.engine.ops.losses.labels import expect_labels
from mtf_imaging.engine.ops.losses.masked_mean import masked_mean
from mtf_imaging.engine.ops.losses.sigmoid import sigmoid_cross_entropy
from mtf_imaging.engine.ops.norm.layer import layer_norm
from mtf_imaging.engine.ops.norm.norms import batch_norm, group_norm, instance_norm
from mtf_imaging.engine.ops.over_batch import over_batch
from mtf_imaging.engine.ops.pool.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.engine.ops.recompute import recompute
from mtf_imaging.engine.ops.reshard import gather_slices, scatter_slices, slices_per_dimension
from mtf_imaging.engine.ops.resize.padding import pad
from mtf_imaging.engine.ops.resize.resizing import resize1d, resize2d, resize3d
from mtf_imaging.engine.ops.smooth import gelu, silu
from mtf_imaging.engine.ops.space.blocks import depth_to_space, space_to_depth
from mtf_imaging.engine.ops.step import step
from mtf_imaging.engine.spellings import accept_all_spellings

__all__ = [
    "adaptive_dice_loss",
    "add_bias",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "combined_non_max_suppression",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "depth_to_space",
    "dice_loss",
    "dropout",
    "expect_labels",
    "gather_slices",
    "gelu",
    "global_avg_pool",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "masked_mean",
    "master_dtype",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "over_batch",
    "pad",
    "recompute",
    "relu",
    "resize1d",
    "resize2d",
    "resize3d",
    "roi_align",
    "scatter_slices",
    "separable_conv2d",
    "separable_conv3d",
    "sigmoid_cross_entropy",
    "silu",
    "slices_per_dimension",
    "softmax",
    "space_to_depth",
    "sparse_softmax_cross_entropy",
    "step",
    "top_k",
    "weighted_cross_entropy",
]

_public = {name: globals()[name] for name in __all__}
accept_all_spellings(_public)
globals().update(_public)
