"""R(2+1)D: a residual network for clips, with each convolution factorized into a spatial and a temporal one."""

import dataclasses

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.gathering import gather_small_slices
from mtf_imaging.parameters import check_parameters, parameter

TIME_KERNEL = 3
SPACE_KERNEL = 3


@gin.configurable(module="video")
@dataclasses.dataclass(frozen=True)
class R2Plus1D:
    """R(2+1)D (Tran et al. 2018, arXiv:1711.11248), which creates its weights when it is called on a tensor.

    - A factorized convolution is a spatial convolution (1 x d x d), a norm, a ReLU, and a temporal convolution
      (3 x 1 x 1). From N to F channels, it has `M = floor(3 d^2 N F / (d^2 N + 3 F))` channels in the middle, so that
      it has about as many weights as a 3 x d x d convolution.
    - The stem is a factorized convolution, a norm and a ReLU.
    - A block computes a factorized convolution with d = 3, a norm, a ReLU, a second factorized convolution and a norm.
      It adds its input and applies a ReLU. If the input has a different shape, a 1 x 1 x 1 convolution and a norm
      convert it first.
    - Stage s has `base_filters 2^s` filters. Every stage but the first halves height and width and divides the time by
      `time_stride`, and rounds the sizes up.
    - The logits are a dense layer of the mean over all frames and pixels.

    All paddings are explicit pairs. The default is R(2+1)D-18 with the 400 classes of Kinetics, with 33.4 million
    weights (33.3 million in the paper). With `stem_middle=45` and `middle_per_block=True`, it has the 31,505,325
    weights of torchvision's `r2plus1d_18`.

    Attributes:
      classes: number of classes.
      blocks: number of residual blocks in each stage.
      base_filters: number of filters of the stem and the first stage.
      stem_kernel: kernel size of the stem's spatial convolution in pixels.
      stem_stride: stride of the stem's spatial convolution in pixels.
      stem_middle: number of filters of the stem's spatial convolution. None computes M.
      middle_per_block: whether the second factorized convolution of a block uses the M of the first.
      time_stride: stride in frames of each stage but the first.
      causal: whether temporal convolutions use the current frame and the two before it, instead of the current frame
        and one on either side. Features then do not depend on later frames, except through the statistics that norms
        use in training.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size of a slice in frames or pixels. If a stage would have smaller slices along a dimension,
        the dimension is gathered for this stage and all that follow. All processors along it then do the same work.
        With 0, nothing is gathered, and in a stage with fewer frames or pixels than slices, some processors have no
        work.
    """

    classes: int = 400
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    base_filters: int = 64
    stem_kernel: int = 7
    stem_stride: int = 2
    stem_middle: int | None = None
    middle_per_block: bool = False
    time_stride: int = 2
    causal: bool = False
    norm_momentum: float = parameter(0.9, least=0, below=1)
    norm_epsilon: float = 1e-5
    gather_below: int = parameter(0, least=0)

    def __post_init__(self):
        check_parameters(self)

    def __call__(self, clip, is_training):
        """Computes the logits of all classes.

        Args:
          clip: Tensor[batch, time, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          logits Tensor[batch, classes]
        """
        x = self.features(clip, is_training)
        with tf.compat.v1.variable_scope("r2plus1d"):
            classes = mi.layers.Dense(self.classes, output_name="classes", name="classes")
            return classes(mi.ops.global_avg_pool(x))

    def features(self, clip, is_training):
        """Computes the features of the last stage.

        Args:
          clip: Tensor[batch, time, height, width, channels]
          is_training: see `__call__`.

        Returns:
          Tensor[batch, time', height', width', channels]. If `causal` is set, feature t' depends on the frames up to
          t' times the product of all strides in time.
        """
        with tf.compat.v1.variable_scope("r2plus1d"):
            x = self._stem(clip, is_training)
            for stage, number in enumerate(self.blocks):
                for block in range(number):
                    strides = (self.time_stride, 2, 2) if stage and not block else (1, 1, 1)
                    x = self._block(x, f"stage{stage}/block{block}", self.base_filters * 2**stage, strides, is_training)
            return x

    def _stem(self, x, is_training):
        strides = (1, self.stem_stride, self.stem_stride)
        x = self._gather(x, "stem", strides)
        middle = self.stem_middle or _middle_filters(x, self.base_filters, self.stem_kernel)
        return mi.ops.relu(
            self._factorized(x, "stem", self.base_filters, middle, self.stem_kernel, strides, is_training)
        )

    def _block(self, x, name, filters, strides, is_training):
        x = self._gather(x, name, strides)
        with tf.compat.v1.variable_scope(name):
            middle = _middle_filters(x, filters)
            y = mi.ops.relu(self._factorized(x, "conv0", filters, middle, SPACE_KERNEL, strides, is_training))
            if not self.middle_per_block:
                middle = _middle_filters(y, filters)
            y = self._factorized(y, "conv1", filters, middle, SPACE_KERNEL, (1, 1, 1), is_training)
            if x.shape != y.shape:
                x = self._conv_norm(x, "shortcut", filters, (1, 1, 1), strides, is_training)
            return mi.ops.relu(x + y)

    def _factorized(self, x, name, filters, middle, kernel_size, strides, is_training):
        with tf.compat.v1.variable_scope(name):
            x = self._conv_norm(x, "space", middle, (1, kernel_size, kernel_size), (1, *strides[1:]), is_training)
            return self._conv_norm(
                mi.ops.relu(x), "time", filters, (TIME_KERNEL, 1, 1), (strides[0], 1, 1), is_training
            )

    def _conv_norm(self, x, name, filters, kernel_size, strides, is_training):
        # TensorFlow's SAME padding depends on the size of the clip where the stride is above 1; this padding does not.
        padding = [((size - 1) // 2, size // 2) for size in kernel_size]
        if self.causal:
            padding[0] = (kernel_size[0] - 1, 0)  # a window ends with the current frame
        x = mi.layers.Conv(filters, kernel_size, strides, padding, use_bias=False, name=name)(x)
        return mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=f"{name}_norm")

    def _gather(self, x, name, strides):
        return gather_small_slices(x, f"{name}_gather", strides, self.gather_below)


def _middle_filters(x, filters, kernel_size=SPACE_KERNEL):
    """Returns M, the number of channels between a spatial and a temporal convolution, at least 1."""
    channels, window = x.shape.dims[-1].size, kernel_size**2
    return max(1, TIME_KERNEL * window * channels * filters // (window * channels + TIME_KERNEL * filters))
