"""The operations of the conversion that replace several operations of TensorFlow; see `Call.fused`."""

from mtf_imaging.engine import ops
from mtf_imaging.engine.ops.norm.layer import LayerNormalize
from mtf_imaging.engine.ops.norm.normalization import Normalize, Sharing
from mtf_imaging.networks.array import Array, resampled
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import Unnamed, Value, as_array, named


@operation("Resampled", ours="mi.ops.resize3d, mi.ops.pad", is_pure=False)
def _resampled(call: Call, x: Array | Unnamed) -> Array:
    return resampled(as_array(x), call.get("lines"))


@operation("NormalizedCases", ours="mi.ops.instance_norm, mi.ops.group_norm", is_pure=False)
def _normalized_cases(call: Call, x: Array | Unnamed, scale: Value, offset: Value) -> Array:
    last = len(x.sizes) - 1
    image = as_array(x).single(0, name="batch").single(last, name="channels")
    channels = image.axes[-1]
    gain, shift = (named(call.mesh, value, [channels]).tensor for value in (scale, offset))
    sharing = Sharing(by_case=True, group=call.get("group"))
    y = Normalize("group_norm", image.laid(), gain, shift, sharing, call.get("epsilon"), call.node.name).outputs[0]
    return Array(y, image.axes)


@operation("NormalizedChannels", ours="mi.ops.layer_norm", is_pure=False)
def _normalized_channels(call: Call, x: Array | Unnamed, scale: Value, offset: Value) -> Array:
    image = as_array(x).single(len(x.sizes) - 1, name="channels")
    gain, shift = (named(call.mesh, value, image.axes[-1:]).tensor for value in (scale, offset))
    return Array(LayerNormalize(image.laid(), gain, shift, call.get("epsilon")).outputs[0], image.axes)


@operation("BlocksOfChannels", ours="mi.ops.depth_to_space", is_pure=False)
def _blocks_of_channels(call: Call, x: Array | Unnamed) -> Array:
    image = as_array(x).single(*range(len(x.sizes)), name="axis")
    y = ops.depth_to_space(image.laid(), call.get("blocks"))
    return Array(y, [(dim,) for dim in y.shape.dims])
