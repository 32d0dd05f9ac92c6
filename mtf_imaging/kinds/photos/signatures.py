"""The signatures of a network that segments photos."""

from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.engine.meshes.portable import divisor, ensure_shape
from mtf_imaging.evaluation.export.networks import Network, TrainedNetworks, average_flips, average_networks
from mtf_imaging.evaluation.export.signature import ExportedKind, Field, Signature, checked, grid_name, with_default
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.export import ExportedRun
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.photos.description import PhotoDescription, photo_description_from_fields
from mtf_imaging.settings.values import check_flips

Size = tuple[int, ...]  # height and width


class PhotoSignatures(ExportedKind):
    """The signatures of a network that segments photos: one for each size to which photos are padded.

    Args:
      networks: the trained networks, one per size.
      sizes: the sizes, height and width, in ascending order.
      description: the classes and the scaling.
      flips: names of the axes to flip.

    Raises:
      ShapeError: the network does not return the probabilities of the classes.
    """

    def __init__(
        self, networks: TrainedNetworks, sizes: Sequence[Size], description: PhotoDescription, flips: Sequence[str] = ()
    ) -> None:
        networks.check_probabilities(len(description.classes), "classes")
        self._sizes, self._description = [*sizes], description
        self._axes = [PHOTO_AXES.index(name) for name in flips]
        self._networks = {size: average_networks(networks.of_size(size)) for size in sizes}

    def signatures(self) -> list[Signature]:
        return with_default({size: self._of_size(size, self._networks[size]) for size in self._sizes})

    def _of_size(self, size: Size, network: Network) -> Signature:
        names, photo = self._description.classes, (None, None)

        def predict(pixels: tf.Tensor) -> tf.Tensor:
            shape = tf.shape(pixels)
            after = [[0, size[0] - shape[0]], [0, size[1] - shape[1]], [0, 0]]
            scaled = self._description.scale(tf.cast(pixels, tf.float32), divisor)
            padded = tf.pad(scaled, after)  # scaling makes padding 0
            return network(ensure_shape(padded, [*size, 3]))[: shape[0], : shape[1]]

        def compute(image: tf.Tensor) -> dict[str, tf.Tensor]:
            fits = tf.reduce_all(tf.shape(image)[:2] <= tf.constant(size))
            message = (
                f"the photo is larger than {size[0]} x {size[1]} pixels; export the model with a larger resolution"
            )
            image = checked(image, fits, message, tf.shape(image))
            probabilities = tf.cast(average_flips(predict, self._axes)(image), tf.float32)
            return {"probabilities": probabilities, "labels": tf.argmax(probabilities, axis=-1, output_type=tf.int32)}

        listed = ", ".join(f"{label} {name}" for label, name in enumerate(names))
        image = Field(
            "image",
            tf.uint8,
            (*photo, 3),
            (*PHOTO_AXES, "channels"),
            f"Red, green and blue of an upright photo of at most {size[0]} x {size[1]} pixels, as stored in its file.",
        )
        outputs = (
            Field(
                "probabilities",
                tf.float32,
                (*photo, len(names)),
                (*PHOTO_AXES, "classes"),
                f"The probability of each class: {', '.join(names)}.",
            ),
            Field("labels", tf.uint8, photo, PHOTO_AXES, f"The class of each pixel: {listed}."),
        )
        meaning = f"Segments a photo, which is padded to {size[0]} x {size[1]} pixels."
        return Signature(grid_name(size), meaning, (image,), outputs, compute)

    def facts(self) -> dict:
        return {
            "sizes": [list(size) for size in self._sizes],
            "classes": list(self._description.classes),
            "scaling": self._description.scaling,
        }

    def notes(self) -> list[str]:
        return [
            "Photos are scaled and padded within the model. predict pads a photo that is larger than the crops of the "
            "training to a multiple of the network instead; export the model with that size for the same probabilities."
        ]


def exported(run: ExportedRun, facts: Facts) -> tuple[TrainedNetworks, PhotoSignatures]:
    """Builds the networks of a run, with their signatures; see `Kind.export`."""
    check_flips(run.flips, axis_names=PHOTO_AXES)
    description = photo_description_from_fields(facts.description, str(run.runs[0] / FACTS))
    sizes = run.sizes(facts)
    networks = run.networks(sizes, description)
    return networks, PhotoSignatures(networks, sizes, description, run.flips)
