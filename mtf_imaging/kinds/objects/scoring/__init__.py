"""The scores of detections, as in COCO."""
