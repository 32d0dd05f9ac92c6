"""What a model offers to be trained and used; it need not derive from anything here."""

from typing import Protocol

from mtf_imaging.compat import mtf


class Task(Protocol):
    """A network with its loss, as functions over named tensors."""

    def inputs(self, batch_size: int, sizes: tuple[int, ...], dtype: str, labels: bool) -> dict:
        """Inputs of a `Program` for volumes of these sizes: those of `loss` with labels, of `predict` without.

        `dtype` is that of images, and so of the weights and all that is computed of them.
        """

    def loss(self, **inputs: mtf.Tensor) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
        """The loss, Tensor[], and measures to show beside it, Tensors[] by name."""

    def predict(self, image: mtf.Tensor) -> mtf.Tensor:
        """Tensor[batch, x, y, z, channels] -> probabilities Tensor[batch, x, y, z, classes]."""
