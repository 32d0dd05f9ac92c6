"""Operations for detectors: RoI features, and the objects with the highest scores."""

from mtf_imaging.engine.ops.detection.roi_align import roi_align
from mtf_imaging.engine.ops.detection.top_k import top_k

__all__ = ["roi_align", "top_k"]
