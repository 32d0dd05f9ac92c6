"""The signature of a network that was trained on a custom data set: the network alone, without preprocessing."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.evaluation.export.networks import TrainedNetworks, average_networks
from mtf_imaging.evaluation.export.signature import ExportedKind, Field, Signature, grid_name, with_default
from mtf_imaging.inference.averages import check_numbers
from mtf_imaging.inference.network import of_each
from mtf_imaging.kinds.export import ExportedRun
from mtf_imaging.kinds.facts import Facts

IMAGE, PREDICTION = "image", "prediction"  # the names of a single input and of a single output


class ArraySignatures(ExportedKind):
    """The signatures of a network for arrays, in the form that its data set returns them.

    Args:
      networks: the trained networks.
      sizes: the sizes of images, in ascending order.

    Raises:
      ConfigError: there are several networks, but their predictions cannot be averaged.
    """

    def __init__(self, networks: TrainedNetworks, sizes: Sequence[tuple[int, ...]]) -> None:
        if len(networks.steps) > 1:
            of_each(lambda spec: check_numbers(spec.dtype.as_numpy_dtype), networks.results(sizes[-1]))
        self._networks, self._sizes = networks, [*sizes]

    def signatures(self) -> list[Signature]:
        return with_default({sizes: self._of_size(sizes) for sizes in self._sizes})

    def _of_size(self, sizes: tuple[int, ...]) -> Signature:
        network = average_networks(self._networks.of_size(sizes))

        images = self._networks.image(sizes)

        def compute(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return _named(network(inputs if isinstance(images, Mapping) else inputs[IMAGE]), PREDICTION)

        def fields(specs: Any, dims: Any, alone: str, meaning: str) -> tuple[Field, ...]:
            names = _named(dims, alone)
            return tuple(
                Field(name, _dtype(spec.dtype), tuple(spec.shape), names[name], meaning)
                for name, spec in _named(specs, alone).items()
            )

        inputs = fields(images, self._networks.image_dims, IMAGE, "An image as the data set of the training makes it.")
        results = self._networks.results(sizes), self._networks.result_dims(sizes)
        outputs = fields(*results, PREDICTION, "A result of the network.")
        meaning = "Computes the prediction for one image, without preprocessing."
        return Signature(grid_name(sizes), meaning, inputs, outputs, compute)

    def facts(self) -> dict:
        return {"sizes": [list(sizes) for sizes in self._sizes]}

    def notes(self) -> list[str]:
        return ["The network was trained on a custom data set. Prepare images as this data set does."]


def _named(values: object, alone: str) -> dict[str, Any]:
    return dict(values) if isinstance(values, Mapping) else {alone: values}


def _dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype of a field: every float type becomes float32, as in the signatures of other kinds."""
    return tf.float32 if dtype.is_floating else dtype


def exported(run: ExportedRun, facts: Facts) -> tuple[TrainedNetworks, ArraySignatures]:
    """Builds the networks of a run, with their signatures; see `Kind.export`."""
    sizes = run.sizes(facts)
    networks = run.networks(sizes, None)
    return networks, ArraySignatures(networks, sizes)
