"""`mtf.while_loop`, of whose body every operation is lowered as it is outside of a loop."""

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.upstream.reads import inner_operations, reads


def lower(op, lowering):
    """Lowers an `mtf.WhileLoopOperation`.

    Outputs of the body beyond the loop's inputs are accumulators, summed over all iterations.

    Raises:
      NotSupportedError: the body assigns to a variable.
    """
    if any(isinstance(inner, mtf.Assign) for inner in inner_operations(op)):
        raise NotSupportedError(
            f"while_loop '{op.name}': its body assigns to a variable, but assignments run once a call, after all "
            "reads. Fix: let the loop return the value, and assign it afterwards."
        )
    mesh, number = lowering.mesh_impl(op), len(op.inputs)
    outside = {t: lowering.tensors[t].to_laid_out_tensor().tensor_list for t in reads(op)}

    def run(operations, placeholders, state, results):
        """Stacks of the results of one condition or body."""
        kept = dict(lowering.tensors)
        # Fresh laid-out tensors: what an operation keeps on one for others must not leave the loop.
        lowering.tensors.update({t: LaidOutTensor(stacks) for t, stacks in outside.items()})
        lowering.tensors.update({t: LaidOutTensor(stacks) for t, stacks in zip(placeholders, state)})
        for inner in operations:
            lowering.lower(inner)
        stacks = [lowering.tensors[t].to_laid_out_tensor().tensor_list for t in results]
        lowering.tensors.clear()
        lowering.tensors.update(kept)
        return stacks

    def condition(*state):
        ((first, *_),) = run(op._cond_ops, op._cond_inputs, state, [op._cond_output])
        return tf.reshape(first, [])

    def body(*state):
        results = run(op._body_ops, op._body_inputs, state, op._body_outputs)
        sums = [[a + b for a, b in zip(*stacks)] for stacks in zip(results[number:], state[number:])]
        return results[:number] + sums

    start = [outside[t] for t in op.inputs] + [_zeros(mesh, t) for t in op._body_outputs[number:]]
    end = tf.while_loop(condition, body, start, **op._tf_kwargs)
    for tensor, stacks in zip(op.outputs, end, strict=True):
        lowering.set_tensor_lowering(tensor, LaidOutTensor(stacks))


def _zeros(mesh, tensor):
    """Stacks of zeros, one a device."""
    n = mesh.grid.stack_size if mesh.is_split(tensor.shape) else 1
    stacks = []
    for device in mesh.devices:
        with tf.device(device):
            stacks.append(tf.zeros([n, *mesh.slice_shape(tensor.shape)], tensor.dtype))
    return stacks
