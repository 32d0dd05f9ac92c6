"""The signatures of a network that detects objects, with the same arithmetic as `kinds.objects.infer`."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.engine.meshes.portable import divisor, ensure_shape, index_dtype, widest_dtype
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.evaluation.export.networks import Network, TrainedNetworks
from mtf_imaging.evaluation.export.signature import ExportedKind, Field, Signature, grid_name, with_default
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.export import ExportedRun
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.objects.description import ObjectDescription, object_description_from_fields
from mtf_imaging.kinds.objects.pixel_operations import Axis, interpolate, nearest_pixels, paste_masks
from mtf_imaging.kinds.objects.scoring.detections import BOX_DIGITS, SCORE_DIGITS

Size = tuple[int, ...]  # height and width


class ObjectSignatures(ExportedKind):
    """The signatures of a network that detects objects: one for each size to which images are scaled.

    Args:
      networks: the trained networks, one per size.
      sizes: the sizes, height and width, in ascending order.
      description: the categories and the scaling.

    Raises:
      ShapeError: the network does not return detections.
    """

    def __init__(self, networks: TrainedNetworks, sizes: Sequence[Size], description: ObjectDescription) -> None:
        self._sizes, self._description = [*sizes], description
        self._networks = {size: networks.of_size(size)[0] for size in sizes}
        results = networks.results(sizes[-1])
        names = results if isinstance(results, Mapping) else {}
        if not {"boxes", "scores", "classes"} <= {*names}:
            raise ShapeError(
                f"the network returned {', '.join(names) or 'one tensor'}; detections are boxes, scores and classes. "
                "Fix: return a dict from predict, as ObjectDetection does."
            )
        self._has_masks = "masks" in names

    def signatures(self) -> list[Signature]:
        return with_default({size: self._of_size(size, self._networks[size]) for size in self._sizes})

    def _of_size(self, size: Size, network: Network) -> Signature:
        own = self._description

        def compute(image: tf.Tensor) -> dict[str, tf.Tensor]:
            image_size = tf.shape(image)[:2]
            fitted, factors = self._fit(image, size)
            return self._detections(network(fitted), factors, image_size)

        meaning = "Red, green and blue of an upright image of any size, as stored in its file."
        image = Field("image", tf.uint8, (None, None, 3), (*PHOTO_AXES, "channels"), meaning)
        count, listed = ("detections",), ", ".join(f"{number} {name}" for number, name in enumerate(own.names))
        outputs = [
            Field("boxes", tf.float32, (None, 4), (*count, "coords"), "y0, x0, y1, x1 in pixels of the image."),
            Field("scores", tf.float32, (None,), count, "The scores, in descending order."),
            Field("classes", tf.int32, (None,), count, f"The number of the category: {listed}."),
            Field("category_ids", tf.int32, (None,), count, "The ID of the category in the annotations."),
        ]
        if self._has_masks:
            text = "Whether a pixel belongs to the object."
            outputs.append(Field("masks", tf.bool, (None, None, None), (*count, *PHOTO_AXES), text))
        text = f"Detects the objects in an image, which is scaled to fit into {size[0]} x {size[1]} pixels."
        return Signature(grid_name(size), text, (image,), tuple(outputs), compute)

    def _fit(self, image: tf.Tensor, size: Size) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the network input and the factors for the height and the width; see `reading.native`."""
        shape = tf.unstack(tf.shape(image, index_dtype())[:2])
        factor = tf.minimum(*(side / tf.cast(n, widest_dtype()) for side, n in zip(size, shape, strict=True)))
        rows, columns = (Axis.scaled(n, factor) for n in shape)
        resized = interpolate(image, nearest_pixels(rows), nearest_pixels(columns))
        scaled = self._description.scale(tf.cast(resized, tf.float32), divisor)
        after = [[0, side - axis.count] for side, axis in zip(size, (rows, columns), strict=True)]
        fitted = tf.pad(scaled, tf.stack([*after, [tf.constant(0, index_dtype())] * 2]))
        return ensure_shape(fitted, [*size, 3]), tf.stack([rows.factor, columns.factor])

    def _detections(self, result: Mapping[str, tf.Tensor], factors: tf.Tensor, size: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the detections in pixels of the image, in descending score order, without padding."""
        scores = _rounded(tf.cast(result["scores"], widest_dtype()), SCORE_DIGITS)
        classes = tf.cast(tf.round(tf.cast(result["classes"], widest_dtype())), tf.int32)
        order = tf.argsort(scores, direction="DESCENDING", stable=True)
        order = tf.boolean_mask(order, (tf.gather(scores, order) > 0) & (tf.gather(classes, order) >= 0))
        boxes = tf.gather(tf.cast(result["boxes"], widest_dtype()), order) / tf.tile(factors, [2])
        limits = tf.tile(tf.cast(size, widest_dtype()), [2])
        classes = tf.gather(classes, order)
        detections = {
            "boxes": _rounded(tf.minimum(tf.maximum(boxes, tf.zeros([], widest_dtype())), limits), BOX_DIGITS),
            "scores": tf.gather(scores, order),
            "classes": classes,
            "category_ids": tf.gather(tf.constant(self._description.ids, tf.int32), classes),
        }
        if self._has_masks:
            detections["masks"] = paste_masks(tf.gather(result["masks"], order), boxes, size)
        return detections

    def facts(self) -> dict:
        return {
            "sizes": [list(size) for size in self._sizes],
            "categories": [list(category) for category in self._description.categories],
            "scaling": self._description.scaling,
        }

    def notes(self) -> list[str]:
        return ["Images are scaled within the model, and boxes are scaled back to the image."]


def _rounded(x: tf.Tensor, digits: int) -> tf.Tensor:
    """Rounds numbers to a number of digits after the decimal point, like `np.round`."""
    power = 10.0**digits
    return tf.round(x * power) / divisor(power, x.dtype)


def exported(run: ExportedRun, facts: Facts) -> tuple[TrainedNetworks, ObjectSignatures]:
    """Builds the networks of a run, with their signatures; see `Kind.export`."""
    if run.flips:
        raise ConfigError(
            f"flips = {run.flips!r}: an exported model does not merge detections of flips. Fix: leave it out.",
            ["flips"],
        )
    description = object_description_from_fields(facts.description, str(run.runs[0] / FACTS))
    sizes = run.sizes(facts)
    networks = run.networks(sizes, description)
    return networks, ObjectSignatures(networks, sizes, description)
