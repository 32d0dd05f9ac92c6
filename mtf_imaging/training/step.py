"""One step of training, as the function of a `Program`."""

from mtf_imaging.compat import mtf
from mtf_imaging.errors import TrainingError


def training_step(task, optimizer):
    """Returns a function over named tensors that moves the variables down the loss's gradient, once a call.

    Args:
      task: a `Task`.
      optimizer: an `Optimizer`.

    Returns:
      A function (**inputs) -> dict of Tensors[]: "loss", and the task's measures, all from before the update.
    """

    def step(**inputs):
        loss, measures = task.loss(**inputs)
        variables = loss.graph.trainable_variables
        gradients = mtf.gradients([loss], [variable.outputs[0] for variable in variables])
        idle = [variable.name for variable, gradient in zip(variables, gradients) if gradient is None]
        if idle:
            raise TrainingError(f"the loss does not depend on {', '.join(idle)}. Fix: use them, or make none of them.")
        optimizer.apply(gradients, variables)
        return {"loss": loss, **measures}

    return step
