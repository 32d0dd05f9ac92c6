"""nnU-Net's prediction, written with NumPy and SciPy from its published rules.

Isensee et al. 2021, "nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation", and the
documentation of nnU-Net 2. Arrays are `[channels, *axes]`, and the axes are those of the plans.
"""

import itertools

import numpy as np
import scipy.ndimage
import scipy.special


def resized(values, shape, order):
    """Returns an image of another size as scikit-image's `resize` with mode "edge" computes it for nnU-Net."""
    steps = [n / size for n, size in zip(values.shape, shape)]
    at = np.meshgrid(*((np.arange(size) + 0.5) * step - 0.5 for size, step in zip(shape, steps)), indexing="ij")
    found = scipy.ndimage.map_coordinates(values.astype(np.float64), at, order=order, mode="nearest")
    return np.clip(found, values.min(), values.max())


def resized_along(values, shape, order, axis):
    """Does the same; along an axis, each slice is resized alone, and the nearest one is used."""
    if axis is None:
        return resized(values, shape, order)
    plane = np.delete(shape, axis)
    slices = np.stack([resized(each, plane, order) for each in np.moveaxis(values, axis, 0)], axis)
    return resized(slices, shape, 0)


def axis_apart(first, second):
    """Returns the axis whose voxels are more than three times as long as those of another one, or None."""
    for spacing in (first, second):
        if max(spacing) > 3 * min(spacing):
            longest = [axis for axis, mm in enumerate(spacing) if mm == max(spacing)]
            return longest[0] if len(longest) == 1 else None
    return None


def starts(size, window):
    """Returns the first voxel of each window along an axis; windows overlap by at least half."""
    number = int(np.ceil((size - window) / (window * 0.5))) + 1
    between = (size - window) / (number - 1) if number > 1 else 0
    return [int(np.round(between * i)) for i in range(number)]


def importance(window):
    """Returns the weights of the voxels of a window: a filtered voxel in its middle."""
    middle = np.zeros(window)
    middle[tuple(n // 2 for n in window)] = 1
    return scipy.ndimage.gaussian_filter(middle, [n / 8 for n in window], mode="constant")


def normalized(values, mask, scheme, properties):
    """Returns a normalized channel."""
    if scheme == "CTNormalization":
        clipped = np.clip(values, properties["percentile_00_5"], properties["percentile_99_5"])
        return (clipped - properties["mean"]) / properties["std"]
    if scheme == "RescaleTo01Normalization":
        return (values - values.min()) / (values.max() - values.min())
    if mask is None:
        return (values - values.mean()) / values.std()
    inside = values[mask]
    return np.where(mask, (values - inside.mean()) / inside.std(), values)


def slide(image, networks, patch, mirrored):
    """Returns the logits of an image: the mean of networks, of windows and of mirrored windows."""
    rank, weights = len(patch), importance(patch)
    lead = image.ndim - 1 - rank  # 1 for a 2-D network, which computes slice by slice
    total, count = None, np.zeros(image.shape[1:])
    for network in networks:
        for planes in itertools.product(*(range(n) for n in image.shape[1 : 1 + lead])):
            for at in itertools.product(*map(starts, image.shape[-rank:], patch)):
                window = (slice(None), *planes, *(slice(i, i + n) for i, n in zip(at, patch)))
                subsets = [s for n in range(len(mirrored) + 1) for s in itertools.combinations(mirrored, n)]
                flips = [[axis + 1 for axis in subset] for subset in subsets]
                logits = np.mean([np.flip(network(np.flip(image[window], axes)), axes) for axes in flips], 0)
                total = np.zeros((len(logits), *image.shape[1:])) if total is None else total
                total[window] += weights * logits
                count[window[1:]] += weights
    return total / count


def predict(images, spacing, plans, configuration, networks, mirrored):
    """Returns the logits `[classes, *axes]` in a box of the image, and the box.

    Args:
      images: `[channels, z, y, x]`, as nnU-Net reads them.
      spacing: the voxel size along z, y and x.
      plans, configuration: the plans, and one of their configurations.
      networks: functions of a window.
      mirrored: the axes of a window that are mirrored.
    """
    forward, patch = plans["transpose_forward"], configuration["patch_size"]
    images = np.transpose(images, [0, *(axis + 1 for axis in forward)]).astype(np.float64)
    spacing = [spacing[axis] for axis in forward]
    nonzero = scipy.ndimage.binary_fill_holes((images != 0).any(0))
    box = tuple(slice(at.min(), at.max() + 1) for at in np.nonzero(nonzero))
    cropped, mask, planes = images[(slice(None), *box)], nonzero[box], images.ndim - 1 - len(patch)
    target = [*spacing[:planes], *configuration["spacing"]]
    shape = [round(own / new * n) for own, new, n in zip(spacing, target, mask.shape)]
    properties = plans["foreground_intensity_properties_per_channel"]
    channels = []
    for number, scheme in enumerate(configuration["normalization_schemes"]):
        own_mask = mask if configuration["use_mask_for_norm"][number] else None
        channel = normalized(cropped[number], own_mask, scheme, properties.get(str(number)))
        channels.append(resized_along(channel, shape, 3, axis_apart(spacing, target)))
    lacks = [max(0, least - n) for least, n in zip([0] * planes + patch, shape)]
    padded = np.pad(np.stack(channels), [(0, 0), *((n // 2, n - n // 2) for n in lacks)])
    logits = slide(padded, networks, patch, mirrored)
    inside = tuple(slice(n // 2, n // 2 + size) for n, size in zip(lacks, shape))
    back = axis_apart(target, spacing)
    return np.stack([resized_along(each[inside], mask.shape, 1, back) for each in logits]), box


def segment(images, spacing, plans, configuration, networks, mirrored, regions=None):
    """Returns the labels and the probabilities along z, y and x; see `predict`.

    Args:
      regions: for each output, the label that voxels with a logit above 0 get, instead of that of the largest logit.
    """
    logits, box = predict(images, spacing, plans, configuration, networks, mirrored)
    own = [images.shape[1 + axis] for axis in plans["transpose_forward"]]
    labels, probabilities = np.zeros(own, np.uint8), np.zeros((len(logits), *own))
    if regions is None:
        probabilities[0] = 1
        probabilities[(slice(None), *box)] = scipy.special.softmax(logits, 0)
        labels[box] = logits.argmax(0)
    else:
        probabilities[(slice(None), *box)] = scipy.special.expit(logits)
        for each, label in zip(logits, regions, strict=True):
            labels[box][each > 0] = label
    back = np.argsort(plans["transpose_forward"])
    return labels.transpose(back), probabilities.transpose([0, *(axis + 1 for axis in back)])
