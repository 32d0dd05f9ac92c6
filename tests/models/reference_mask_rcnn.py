"""The parts of Mask R-CNN in NumPy, image by image and box by box, independent of the package."""

import numpy as np

PADDING = -1  # the class of boxes that are not objects
HUBER_RPN, HUBER_ROI = 1 / 9, 1.0
ROI_WEIGHTS = (10, 10, 5, 5)


def area(box):
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def iou(a, b):
    """Returns the intersection over union of two boxes, 0 if one of them is empty."""
    common = area([max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])])
    return common / (area(a) + area(b) - common) if area(a) * area(b) > 0 else 0.0


def anchors(height, width, stride, size, ratios, image):
    """Returns the anchors of a level of an image with one scale, `[height, width, ratios, 4]`."""
    boxes = np.zeros([height, width, len(ratios), 4])
    for y in range(height):
        for x in range(width):
            for i, ratio in enumerate(ratios):
                half_height, half_width = size * stride / ratio**0.5 / 2, size * stride * ratio**0.5 / 2
                center_y, center_x = (y + 0.5) * image[0] / height, (x + 0.5) * image[1] / width
                boxes[y, x, i] = (
                    center_y - half_height,
                    center_x - half_width,
                    center_y + half_height,
                    center_x + half_width,
                )
    return boxes


def encode(box, target, weights=(1, 1, 1, 1)):
    """Returns the deltas from a box to another one."""
    height, width = box[2] - box[0], box[3] - box[1]
    y, x = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    target_y, target_x = (target[0] + target[2]) / 2, (target[1] + target[3]) / 2
    deltas = [
        (target_y - y) / height,
        (target_x - x) / width,
        np.log((target[2] - target[0]) / height),
        np.log((target[3] - target[1]) / width),
    ]
    return np.array(deltas) * weights


def decode(deltas, box, weights=(1, 1, 1, 1)):
    """Returns the box to which deltas lead."""
    deltas = np.asarray(deltas) / weights
    height, width = box[2] - box[0], box[3] - box[1]
    y = (box[0] + box[2]) / 2 + deltas[0] * height
    x = (box[1] + box[3]) / 2 + deltas[1] * width
    height, width = height * np.exp(deltas[2]), width * np.exp(deltas[3])
    return np.array([y - height / 2, x - width / 2, y + height / 2, x + width / 2])


def clip(box, height, width):
    """Returns a box limited to the image."""
    return np.clip(box, 0, [height, width, height, width])


def suppress(boxes, scores, threshold):
    """Returns the indices of boxes that non-maximum suppression keeps, in descending order of scores."""
    kept = []
    for i in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        if area(boxes[i]) > 0 and all(iou(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(i)
    return kept


def proposals(scores, deltas, level_anchors, sizes, per_level, number, threshold):
    """Returns the proposals of one image, `[number, 4]`, and how many exist.

    Args:
      scores, deltas, level_anchors: arrays `[height, width, anchors]` and `[height, width, anchors, 4]` of each level.
      sizes, per_level, number, threshold: as in `propose`.
    """
    rows = []
    for score, delta, anchor in zip(scores, deltas, level_anchors):
        score, delta, anchor = score.ravel(), delta.reshape(-1, 4), anchor.reshape(-1, 4)
        best = np.argsort(-score, kind="stable")[:per_level]
        boxes = [clip(decode(delta[i], anchor[i]), *sizes) for i in best]
        rows += [(score[best[i]], boxes[i]) for i in suppress(boxes, score[best], threshold)]
    rows = sorted(rows, key=lambda row: -row[0])[:number]
    result = np.zeros([number, 4])
    result[: len(rows)] = [box for _, box in rows]
    return result, len(rows)


def match_anchors(level_anchors, boxes, classes, high, low):
    """Returns the object of each anchor, and whether it is positive or negative, for one image over all levels.

    Args:
      level_anchors: `[n, 4]`, the anchors of all levels.
      boxes, classes: `[m, 4]` and `[m]`, the objects.
    """
    objects = [i for i, label in enumerate(classes) if label != PADDING]
    matches, positive, negative = np.zeros(len(level_anchors), int), [], []
    overlaps = np.zeros([len(level_anchors), len(boxes)])
    for i, anchor in enumerate(level_anchors):
        for j in objects:
            overlaps[i, j] = iou(anchor, boxes[j])
        matches[i] = np.argmax(overlaps[i])
        positive.append(overlaps[i].max() >= high)
        negative.append(overlaps[i].max() < low)
    for j in reversed(objects):
        if overlaps[:, j].max() > 0:
            best = np.argmax(overlaps[:, j])
            matches[best], positive[best], negative[best] = j, True, False
    return matches, np.array(positive), np.array(negative)


def sample_anchors(positive, negative, priorities, number, positive_fraction=0.5):
    """Returns the masks of the selected positive and negative anchors of one image."""
    chosen = []
    for mask, limit in ((positive, int(number * positive_fraction)), (negative, None)):
        limit = number - chosen[0].sum() if limit is None else limit
        order = [i for i in np.argsort(-priorities) if mask[i]][:limit]
        chosen.append(np.isin(np.arange(len(mask)), order))
    return chosen


def huber(error, delta):
    error = np.abs(error)
    return np.where(error <= delta, error**2 / 2, delta * (error - delta / 2))


def sigmoid_cross_entropy(logits, labels):
    p = 1 / (1 + np.exp(-logits))
    return -labels * np.log(p) - (1 - labels) * np.log(1 - p)


def rpn_losses(scores, deltas, level_anchors, counts, boxes, classes, priorities, number, high=0.7, low=0.3):
    """Returns the loss of the scores, that of the boxes, and the number of positive samples of each level.

    Args:
      scores, deltas, priorities: `[batch, n]`, `[batch, n, 4]` and `[batch, n]`, over all levels.
      level_anchors: `[n, 4]`, the anchors of all levels.
      counts: the number of anchors of each level.
      boxes, classes: `[batch, m, 4]` and `[batch, m]`
      number, high, low: the settings of the sampling.
    """
    score_loss, box_losses, positives = 0, np.zeros(len(counts)), np.zeros(len(counts), int)
    level = np.repeat(np.arange(len(counts)), counts)
    for image in range(len(scores)):
        matches, *masks = match_anchors(level_anchors, boxes[image], classes[image], high, low)
        positive, negative = sample_anchors(*masks, priorities[image], number)
        for i in np.flatnonzero(positive | negative):
            score_loss += sigmoid_cross_entropy(scores[image, i], float(positive[i]))
        for i in np.flatnonzero(positive):
            target = encode(level_anchors[i], boxes[image, matches[i]])
            box_losses[level[i]] += huber(deltas[image, i] - target, HUBER_RPN).mean()
            positives[level[i]] += 1
    return score_loss / (len(scores) * number), (box_losses / np.maximum(positives, 1)).sum(), positives


def sample_rois(candidates, boxes, classes, priorities, number, foreground, threshold):
    """Returns the RoIs of one image.

    Args:
      candidates: list of (number of the priority, box), the proposals that exist and the objects.
      boxes, classes: the objects.
      priorities: `[proposals + objects]`
      number, foreground, threshold: as in `sample_rois` of the package.

    Returns:
      A list of (box, class + 1 or 0, index of the object or None); shorter than `number` if there are few candidates.
    """
    fore, back = [], []
    for at, box in candidates:
        overlaps = [iou(box, boxes[j]) if label != PADDING else -1 for j, label in enumerate(classes)]
        j = int(np.argmax(overlaps))
        is_object = overlaps[j] >= threshold
        row = (-priorities[at], at, box, classes[j] + 1 if is_object else 0, j if is_object else None)
        (fore if is_object else back).append(row)
    fore, back = sorted(fore, key=lambda row: row[:2])[:foreground], sorted(back, key=lambda row: row[:2])
    return [row[2:] for row in (fore + back)[:number]]


def mask_target(mask, box, roi, size):
    """Returns the mask of an object in a RoI, `[size, size]` of 0 and 1, pixel by pixel."""
    rows, columns = mask.shape
    target = np.zeros([size, size])
    for i in range(size):
        for j in range(size):
            y = roi[0] + (i + 0.5) / size * (roi[2] - roi[0])
            x = roi[1] + (j + 0.5) / size * (roi[3] - roi[1])
            row = (y - box[0]) / (box[2] - box[0]) * rows - 0.5
            column = (x - box[1]) / (box[3] - box[1]) * columns - 0.5
            for m in (int(np.floor(row)), int(np.floor(row)) + 1):
                for n in (int(np.floor(column)), int(np.floor(column)) + 1):
                    if 0 <= m < rows and 0 <= n < columns:
                        target[i, j] += mask[m, n] * (1 - abs(row - m)) * (1 - abs(column - n))
    return (target >= 0.5).astype(float)


def roi_losses(rois, boxes, logits, deltas, mask_logits, masks):
    """Returns the class, box and mask loss of a batch.

    Args:
      rois: for each image, the result of `sample_rois`.
      boxes: `[batch, m, 4]`, the boxes of the objects.
      logits: `[batch, rois, classes + 1]`
      deltas: `[batch, rois, classes + 1, 4]`
      mask_logits: `[batch, foreground, size, size]`, for the class of each RoI.
      masks: `[batch, m, rows, columns]`
    """
    class_losses, box_losses, mask_losses = [], [], []
    for image, rows in enumerate(rois):
        for i, (roi, label, j) in enumerate(rows):
            scores = logits[image, i]
            class_losses.append(np.log(np.exp(scores).sum()) - scores[label])
            if j is not None:
                target = encode(roi, boxes[image, j], ROI_WEIGHTS)
                box_losses.append(huber(deltas[image, i, label] - target, HUBER_ROI).mean())
                target = mask_target(masks[image, j], boxes[image, j], roi, mask_logits.shape[-1])
                mask_losses.append(sigmoid_cross_entropy(mask_logits[image, i], target).mean())
    return [np.mean(losses) if losses else 0.0 for losses in (class_losses, box_losses, mask_losses)]
