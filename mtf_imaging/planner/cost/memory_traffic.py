"""The bytes that operations read from and write to device memory.

Most operations are limited by memory, not by arithmetic: a leaky ReLU computes one number per 8 bytes. An operation
reads its inputs and writes its results once, with the exceptions in this module, which follow from its lowering.
"""

import math

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import ShardMeshImpl
from mtf_imaging.engine.ops.activation import Dropout
from mtf_imaging.engine.ops.detection.roi_align import RoiAlign, RoiAlignGrad
from mtf_imaging.engine.ops.detection.top_k import TopK
from mtf_imaging.engine.ops.losses.cross_entropy import Softmax, SparseSoftmaxCrossEntropy
from mtf_imaging.engine.ops.losses.sigmoid import SigmoidCrossEntropy
from mtf_imaging.engine.ops.norm.normalization import Normalize, NormalizeGrad
from mtf_imaging.engine.program.traffic import passed_on, rounds
from mtf_imaging.planner.cost.residence import stored_bytes, widened_bytes

# Operations that create no tensor on the device of the slices, or that only rename dimensions. A reshape that moves
# data states exchanges, which count separately.
_FREE = (mtf.Variable, mtf.Constant, mtf.ImportOperation, mtf.ReshapeOperation)

# Passes over all inputs and results, for operations that consist of several kernels:
_PASSES = {
    Normalize: 2,  # the fused kernel for the sums also writes a result that is not used; then the normalization
    NormalizeGrad: 10 / 3,  # of x, dy and dx: 3 for the sums, 2 for each of two normalizations, 3 for their difference
    Softmax: 3,  # the maximum, the exponentials with their sum, and the division
    SparseSoftmaxCrossEntropy: 3,  # like a softmax; class weights multiply the gradient
    SigmoidCrossEntropy: 6,  # eight elementwise kernels, most of them on two tensors
}
_HASH_PASSES = 9  # elementwise uint32 kernels that draw a dropout mask; see `meshes.random.positions`
_UINT32 = 4
# Passes over the crops: for each of four pixels around a sample, the gather and the product; then the sum. The
# gradient joins the products of all four pixels before it adds them to the map.
_CROP_PASSES = {RoiAlign: 20, RoiAlignGrad: 28}
_KEY_PASSES = 12  # elementwise kernels that convert scores to integers in the same order, and the selection


def memory_traffic(op: mtf.Operation, mesh: ShardMeshImpl, together: int) -> int:
    """Returns the bytes that a device reads and writes for an operation, excluding `halo_copies`.

    Args:
      op: the operation.
      mesh: the mesh, which is used for its geometry only.
      together: the number of processors per device.
    """
    if isinstance(op, _FREE) or passed_on(op):
        return 0
    tensors = [*upstream.reads(op), *op.outputs]
    if isinstance(op, mtf.Assign):
        tensors += op.inputs  # the variable, which has the shape of its new value
    if isinstance(op, TopK):  # it reads only the selected rows
        tensors = [op.inputs[0]] * _KEY_PASSES + op.outputs * 2
    nbytes = sum(stored_bytes(tensor, mesh, together) for tensor in tensors) * _PASSES.get(type(op), 1)
    if isinstance(op, Dropout):
        (x,) = op.inputs
        nbytes += _HASH_PASSES * 2 * _UINT32 * stored_bytes(x, mesh, together) // x.dtype.size
    elif isinstance(op, RoiAlign | RoiAlignGrad):
        copies = together if any(mesh.is_split(tensor.shape) for tensor in tensors) else 1
        nbytes += _CROP_PASSES[type(op)] * op.crops_size(mesh) * copies * op.sum_dtype.size
    elif isinstance(op, mtf.EinsumOperation):
        nbytes += 2 * _product_bytes(op, mesh, together)
    return int(nbytes)


def _product_bytes(einsum, mesh, together):
    """Returns the product bytes of an einsum without a matrix product; the product is stored and then summed."""
    dims = list(dict.fromkeys(dim for x in einsum.inputs for dim in x.shape.dims))
    (y,) = einsum.outputs
    kept = {dim for dim in dims if sum(dim in x.shape.dims for x in einsum.inputs) > 1 and dim not in y.shape.dims}
    apart = [x for x in einsum.inputs if not set(dims) <= set(x.shape.dims)]
    if len(dims) == len(y.shape.dims) or (kept and len(apart) > 1):
        return 0
    shape = mtf.Shape(dims)
    return math.prod(mesh.slice_shape(shape)) * y.dtype.size * (together if mesh.is_split(shape) else 1)


def halo_copies(op: mtf.Operation, mesh: ShardMeshImpl, together: int, widened: set) -> int:
    """Returns the bytes that a device reads and writes to join slices with their halos.

    Args:
      op: the operation.
      mesh: the mesh, which is used for its geometry only.
      together: the number of processors per device.
      widened: keys of the slices that earlier operations have joined with halos; this operation adds its own.
    """
    nbytes = 0
    for _, once, _ in rounds(op, mesh):
        if once is not None and once not in widened:
            widened.add(once)
            nbytes += 2 * widened_bytes(once, mesh) * together
    return nbytes
