"""Losses by name: the loss of a network's outputs, the prediction that belongs to it, and its measure."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.several import named_outputs, output_name, output_of, target_name
from mtf_imaging.spelling import did_you_mean

LABELS, VALUES = "labels", "values"  # the targets: one class for each voxel or image, or numbers


class NamedLoss(NamedTuple):
    """A loss with a name.

    Attributes:
      compute: the loss, Tensor[], of outputs Tensor[batch, ..., classes] and of targets; or a pair of it and a dict of
        measures.
      predict: the prediction for outputs.
      targets: LABELS for int32 Tensor[batch, ...], or VALUES for targets with the shape and dtype of the outputs.
      weight: the factor of the loss in a sum of several.
    """

    compute: Callable[..., Any]
    predict: Callable[[Any], Any]
    targets: str
    weight: float = 1.0


def _softmax(outputs: mtf.Tensor) -> mtf.Tensor:
    return ops.softmax(outputs, outputs.shape.dims[-1])


def _cross_entropy(outputs: mtf.Tensor, labels: mtf.Tensor) -> mtf.Tensor:
    return mtf.reduce_mean(ops.sparse_softmax_cross_entropy(outputs, labels, outputs.shape.dims[-1]))


def _dice_and_cross_entropy(outputs: mtf.Tensor, labels: mtf.Tensor) -> mtf.Tensor:
    """Returns the cross entropy, plus the mean Dice loss per case of all classes but 0, as in nnU-Net."""
    _, *each = mtf.unstack(_softmax(outputs), outputs.shape.dims[-1])
    batch = labels.shape.dims[0]
    losses = [ops.dice_loss(p, mtf.equal(labels, value), batch, over="case") for value, p in enumerate(each, 1)]
    return _cross_entropy(outputs, labels) + mtf.add_n(losses) / len(losses)


def _alike(outputs: mtf.Tensor, values: mtf.Tensor) -> mtf.Tensor:
    """Returns the values with the names and the dtype of the outputs."""
    return mtf.cast(mtf.replace_dimensions(values, values.shape.dims[-1], outputs.shape.dims[-1]), outputs.dtype)


def _binary(outputs: mtf.Tensor, labels: mtf.Tensor) -> mtf.Tensor:
    return mtf.reduce_mean(ops.sigmoid_cross_entropy(outputs, _alike(outputs, labels)))


def _squared(outputs: mtf.Tensor, labels: mtf.Tensor) -> mtf.Tensor:
    return mtf.reduce_mean(mtf.square(outputs - _alike(outputs, labels)))


def _absolute(outputs: mtf.Tensor, labels: mtf.Tensor) -> mtf.Tensor:
    return mtf.reduce_mean(mtf.abs(outputs - _alike(outputs, labels)))


def _same(outputs: Any) -> Any:
    return outputs


LOSSES = {
    "dice_ce": NamedLoss(_dice_and_cross_entropy, _softmax, LABELS),
    "cross_entropy": NamedLoss(_cross_entropy, _softmax, LABELS),
    "binary_cross_entropy": NamedLoss(_binary, mtf.sigmoid, VALUES),
    "mse": NamedLoss(_squared, _same, VALUES),
    "mae": NamedLoss(_absolute, _same, VALUES),
}


def named_loss(loss: str | Callable[..., Any], targets: str | None = None) -> NamedLoss:
    """Returns a loss by its name, or a function `loss(outputs, targets)` as a loss.

    Args:
      loss: the name, or the function.
      targets: LABELS or VALUES, the targets at hand; None if there are none.

    Raises:
      ConfigError: the name is unknown, or the loss needs other targets.
    """
    if not isinstance(loss, str):
        return NamedLoss(loss, _same, targets or VALUES)
    if loss not in LOSSES:
        raise ConfigError(
            f"loss = {loss!r} is unknown.{did_you_mean(loss, LOSSES)} Fix: choose one of {', '.join(LOSSES)}, or give "
            "a function loss(outputs, targets).",
            ["loss"],
        )
    found = LOSSES[loss]
    if targets not in (None, found.targets):
        kinds = {LABELS: "integers, one class for each voxel or image", VALUES: "numbers with a last axis like outputs"}
        raise ConfigError(
            f"loss = {loss!r} needs targets that are {kinds[found.targets]}, but they are {kinds[targets]}. Fix: "
            f"convert them, or choose {' or '.join(name for name, own in LOSSES.items() if own.targets == targets)}.",
            ["loss"],
        )
    return found


def sum_of_losses(losses: Mapping[str, NamedLoss]) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """Returns the weighted sum of the losses of outputs, as in `networks.task`, and the prediction for all outputs.

    The loss of each of several outputs is also a measure, such as "mask_loss", without its weight.

    Args:
      losses: the loss of each output by its name; the loss "" is that of a single output. If it is a function of the
        user, it receives all outputs.
    """

    def compute(outputs: Any, **targets: mtf.Tensor) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
        each: list[mtf.Tensor] = []
        measures: dict[str, mtf.Tensor] = {}
        for name, loss in losses.items():
            own = output_of(outputs, name) if name or loss._replace(weight=1.0) in LOSSES.values() else outputs
            result = loss.compute(own, targets[target_name(name)])
            value, more = result if isinstance(result, tuple) else (result, {})
            each.append(value * loss.weight)
            measures |= {f"{name}_{key}": one for key, one in {"loss": value, **more}.items()} if name else more
        return mtf.add_n(each) if len(each) > 1 else each[0], measures

    def predict(outputs: Any) -> Any:
        predictions = named_outputs(outputs)
        for name, loss in losses.items():
            if loss.predict is not _same:
                name = output_name(outputs, name)
                predictions[name] = loss.predict(predictions[name])
        return predictions.get("", predictions)

    return compute, predict
