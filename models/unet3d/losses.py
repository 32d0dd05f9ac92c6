"""The losses of a segmentation: cross entropy and Dice, of a softmax over labels or of a sigmoid per mask.

A voxel with the ignore label contributes neither to the cross entropy nor to Dice: means are over the counted voxels,
and a batch without counted voxels has a loss of 0.
"""

import dataclasses

import mtf_imaging as mi

BACKGROUND = 0
_EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class Overlap:
    """A probability and its target, to compute a Dice loss or measure.

    Attributes:
      probability: Tensor[batch, x, y, z], 0 for the voxels that do not count.
      target: Tensor[batch, x, y, z] of the same dtype, 1 for the voxels of the structure and 0 for all others.
    """

    probability: mi.mtf.Tensor
    target: mi.mtf.Tensor

    def loss(self, over):
        """Returns the Dice loss, summed over "case", "batch" or "both" (`ops.dice_loss`)."""
        return mi.ops.dice_loss(self.probability, self.target, self.target.shape.dims[0], over=over)

    def soft_dice(self):
        """Returns `(2 sum(p t) + 1e-6) / (sum(p) + sum(t) + 1e-6)` over the batch, 1 if both are empty."""
        intersection = mi.ops.over_batch(mi.mtf.reduce_sum(self.probability * self.target))
        total = mi.ops.over_batch(mi.mtf.reduce_sum(self.probability) + mi.mtf.reduce_sum(self.target))
        return (2 * intersection + _EPSILON) / (total + _EPSILON)


class Loss:
    """Base class of the losses: `(1 - dice_weight) cross entropy + dice_weight Dice loss`.

    Args:
      task: the `SegmentationTask`, which has the labels and masks, and the settings of the loss.
    """

    def __init__(self, task):
        self._task = task

    def _mix(self, cross_entropy, dice):
        return (1 - self._task.dice_weight) * cross_entropy + self._task.dice_weight * dice

    def _mean_dice(self, overlaps):
        losses = [overlap.loss(self._task.dice_over) for overlap in overlaps]
        return mi.mtf.add_n(losses) / len(losses)

    def _masks(self, masks):
        """Returns the overlaps whose Dice losses `dice` selects, given {mask: Overlap}."""
        return list(masks.values()) if self._task.dice == "masks" else [masks[self._task.dice]]

    def _counted(self, labels):
        """Returns bool Tensor[batch, x, y, z], true for the voxels that count; None if all count."""
        ignore = self._task.description.ignore
        return None if ignore is None else mi.mtf.not_equal(labels, ignore)


class SoftmaxLoss(Loss):
    """The loss of a softmax over the background and the labels."""

    def probabilities(self, logits):
        """Computes the softmax: logits Tensor[batch, x, y, z, classes] -> probabilities of the same shape."""
        return mi.ops.softmax(logits, logits.shape.dims[-1])

    def __call__(self, logits, labels):
        """Computes the loss of one resolution.

        Args:
          logits: Tensor[batch, x, y, z, classes], float32 or larger.
          labels: int32 Tensor[batch, x, y, z]

        Returns:
          The loss, Tensor[], and {name of a mask: Overlap}.
        """
        dim, counted = logits.shape.dims[-1], self._counted(labels)
        probability = self.probabilities(logits)
        classes = labels
        if counted is not None:
            # The ignore label is not a class, and its voxels must not have an infinite or NaN loss.
            classes = mi.mtf.where(counted, labels, BACKGROUND)
            probability = mi.mtf.where(counted, probability, 0)
        overlaps = self._overlaps(probability, labels)
        described = self._task.description.masks.items()
        masks = {name: _union([overlaps[value] for value in values]) for name, values in described}
        cross_entropy = mi.ops.weighted_cross_entropy(logits, classes, dim, self._task.class_weights, counted)
        if self._task.dice == "adaptive":
            dice = mi.ops.adaptive_dice_loss(probability, classes, dim, mask=counted)
        else:
            dice = self._mean_dice(overlaps.values() if self._task.dice == "classes" else self._masks(masks))
        return self._mix(cross_entropy, dice), masks

    def _overlaps(self, probability, labels):
        """Returns {class: Overlap} of the labels, and of the background if it has a Dice loss."""
        # `labels` still contains the ignore label, so no target includes its voxels.
        each = mi.mtf.unstack(probability, probability.shape.dims[-1])
        return {
            index: Overlap(each[index], _equal(labels, index, probability.dtype))
            for index in [BACKGROUND] * self._task.dice_background + list(self._task.description.labels.values())
        }


class RegionLoss(Loss):
    """The loss of a sigmoid per mask, for masks that overlap.

    The cross entropy is the mean over masks and voxels. The target of a mask is 1 where the label is one of its values.
    """

    def probabilities(self, logits):
        """Computes the sigmoids: logits Tensor[batch, x, y, z, masks] -> probabilities of the same shape."""
        return mi.mtf.sigmoid(logits)

    def __call__(self, logits, labels):
        """Computes the loss of one resolution.

        Args:
          logits: Tensor[batch, x, y, z, masks], float32 or larger.
          labels: int32 Tensor[batch, x, y, z]

        Returns:
          The loss, Tensor[], and {name of a mask: Overlap}.
        """
        counted = self._counted(labels)
        masks, losses, each = {}, [], mi.mtf.unstack(logits, logits.shape.dims[-1])
        for index, (name, values) in enumerate(self._task.description.masks.items()):
            logit = each[index]
            target = _sum(_equal(labels, value, logits.dtype) for value in values)
            loss = mi.ops.sigmoid_cross_entropy(logit, target)
            losses.append(loss if self._task.class_weights is None else loss * self._task.class_weights[index])
            probability = self.probabilities(logit)
            masks[name] = Overlap(probability if counted is None else mi.mtf.where(counted, probability, 0), target)
        mean = _sum(losses) / len(losses)
        cross_entropy = mi.mtf.reduce_mean(mean) if counted is None else mi.ops.masked_mean(mean, counted)
        return self._mix(cross_entropy, self._mean_dice(self._masks(masks))), masks


def _union(overlaps):
    """Returns the overlap of a mask, given the overlaps of its labels, which exclude each other."""
    return Overlap(_sum(overlap.probability for overlap in overlaps), _sum(overlap.target for overlap in overlaps))


def _equal(labels, value, dtype):
    """Returns 1 where a label has a value, and 0 elsewhere."""
    return mi.mtf.cast(mi.mtf.equal(labels, value), dtype)


def _sum(tensors):
    first, *others = tensors
    return sum(others, first)
