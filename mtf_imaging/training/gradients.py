"""Loss, gradients and update of a training step, as functions over named tensors."""

from collections.abc import Callable

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import TrainingError
from mtf_imaging.training.averages import apply_update
from mtf_imaging.training.frozen import NOTHING_FROZEN, Frozen
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.task import Task, loss_of

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


def training_step(
    task: Task,
    optimizer: Optimizer,
    ends: Callable[[str, mtf.Graph], None] = lambda phase, graph: None,
    frozen: Frozen = NOTHING_FROZEN,
    average_decay: float | None = None,
) -> Callable:
    """Returns a function over named tensors that updates the variables once per call.

    Args:
      task: a `Task`: the network and its loss.
      optimizer: the optimizer.
      ends: a function that is called with FORWARD and with BACKWARD once the graph contains all operations of that
        phase.
      frozen: the weights that are not trained.
      average_decay: the decay of the weight averages, or None for no averages; see `apply_update`.

    Returns:
      A function (**inputs) -> dict of Tensors[], computed before the update: "loss", the task's measures, and
      GRADIENT_NORM if the optimizer clips gradients.
    """

    def step(**inputs: mtf.Tensor) -> dict[str, mtf.Tensor]:
        loss, measures = loss_of(task, inputs, frozen)
        ends(FORWARD, loss.graph)
        variables, gradients = gradients_of(loss)
        ends(BACKWARD, loss.graph)
        norms = apply_update(optimizer, gradients, variables, average_decay)
        return {"loss": loss, **norms, **measures}

    return step


def gradients_of(loss: mtf.Tensor) -> tuple[list[mtf.Variable], list[mtf.Tensor]]:
    """Returns the trainable variables of a loss's graph, and its gradients with respect to them.

    Args:
      loss: Tensor[].

    Raises:
      TrainingError: the loss does not depend on a variable.
    """
    variables = loss.graph.trainable_variables
    gradients = mtf.gradients([loss], [variable.outputs[0] for variable in variables])
    idle = [variable.name for variable, gradient in zip(variables, gradients) if gradient is None]
    if idle:
        raise TrainingError(
            f"the loss does not depend on {', '.join(idle)}. Fix: use these weights in the loss, or remove them."
        )
    loss.mesh.gradients.update(gradients)
    return variables, gradients
