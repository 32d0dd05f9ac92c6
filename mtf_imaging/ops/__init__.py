"""Operations on named tensors that equal TensorFlow's on the whole tensor, whatever the layout."""

from mtf_imaging.ops.conv import conv2d, conv2d_transpose, conv3d, conv3d_transpose
from mtf_imaging.ops.pool import avg_pool2d, avg_pool3d, max_pool2d, max_pool3d
