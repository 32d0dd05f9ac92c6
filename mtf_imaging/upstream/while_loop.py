"""Lowers `mtf.while_loop`. Operations of its body are lowered in the same way as outside a loop."""

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.upstream.reads import inner_operations, reads


def lower(op, lowering):
    """Lowers an `mtf.WhileLoopOperation`.

    If the body has more outputs than the loop has inputs, the additional outputs are summed over all iterations.

    Raises:
      NotSupportedError: the body assigns to a variable.
    """
    if any(isinstance(inner, mtf.Assign) for inner in inner_operations(op)):
        raise NotSupportedError(
            f"while_loop '{op.name}': its body assigns to a variable, but assignments run once per call, after "
            "all reads. Fix: return the value from the loop and assign it afterwards."
        )
    mesh, number = lowering.mesh_impl(op), len(op.inputs)
    outside = {t: lowering.tensors[t].to_laid_out_tensor().tensor_list for t in reads(op)}

    def run(operations, placeholders, state, results):
        """Lowers one condition or body and returns the stacks of its results."""
        kept = dict(lowering.tensors)
        # New laid-out tensors: values that operations cache on them must not leave the loop.
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
    """Returns stacks of zeros, one per device."""
    n = mesh.grid.stack_size if mesh.is_split(tensor.shape) else 1
    stacks = []
    for device in mesh.devices:
        with tf.device(device):
            stacks.append(tf.zeros([n, *mesh.slice_shape(tensor.shape)], tensor.dtype))
    return stacks
