"""The detections of an image, and their form in a COCO results file."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtf_imaging.kinds.objects.description import ObjectDescription

BOX_DIGITS, SCORE_DIGITS = 3, 6  # digits after the decimal point, so that files, scores and pictures agree


@dataclass(frozen=True, eq=False)
class Detections:
    """The detections of one image on its own grid, in descending score order.

    Attributes:
      boxes: float `[detections, 4]`: y0, x0, y1 and x1 in pixels.
      scores: float `[detections]`, from 0 to 1.
      classes: int `[detections]`, the indices of the categories in an `ObjectDescription`.
      masks: the mask of each detection at the image size, run-length encoded as in pycocotools; None if the
        network does not predict masks.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    masks: tuple[dict[str, Any], ...] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def coco_results(self, image_id: int, description: ObjectDescription) -> list[dict[str, Any]]:
        """Returns the detections in COCO's results format.

        Args:
          image_id: the COCO ID of the image.
          description: the categories and their COCO IDs.

        Returns:
          A dict for each detection: `image_id`, `category_id`, `bbox` (x, y, width, height), `score` and, with masks,
          `segmentation`.
        """
        results = []
        for number, (y0, x0, y1, x1) in enumerate(np.asarray(self.boxes, np.float64).tolist()):
            result: dict[str, Any] = {
                "image_id": image_id,
                "category_id": description.ids[int(self.classes[number])],
                "bbox": [round(value, 3) for value in (x0, y0, x1 - x0, y1 - y0)],
                "score": float(self.scores[number]),
            }
            if self.masks is not None:
                result["segmentation"] = self.masks[number]
            results.append(result)
        return results
