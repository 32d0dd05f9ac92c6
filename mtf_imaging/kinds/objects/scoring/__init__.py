"""Detection of the objects in images: inference, scores of COCO, pictures."""
