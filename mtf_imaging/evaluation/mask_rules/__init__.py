"""Rules that remove components of the masks of any segmentation, and their choice on held-out cases."""
