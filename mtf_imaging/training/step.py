"""One step of training, as the function of a `Program`."""

from mtf_imaging.compat import mtf
from mtf_imaging.errors import TrainingError
from mtf_imaging.training.task import loss_of


def training_step(task, optimizer):
    """Returns a function over named tensors that moves the variables down the loss's gradient, once a call.

    Args:
      task: a `Task`.
      optimizer: an `Optimizer`.

    Returns:
      A function (**inputs) -> dict of Tensors[]: "loss", and the task's measures, all from before the update.
    """

    def step(**inputs):
        loss, measures = loss_of(task, inputs)
        variables, gradients = gradients_of(loss)
        optimizer.apply(gradients, variables)
        return {"loss": loss, **measures}

    return step


def gradients_of(loss):
    """Returns the trainable variables of a loss's graph, and its gradients to them.

    Raises:
      TrainingError: the loss does not depend on a variable.
    """
    variables = loss.graph.trainable_variables
    gradients = mtf.gradients([loss], [variable.outputs[0] for variable in variables])
    idle = [variable.name for variable, gradient in zip(variables, gradients) if gradient is None]
    if idle:
        raise TrainingError(f"the loss does not depend on {', '.join(idle)}. Fix: use them, or make none of them.")
    return variables, gradients
