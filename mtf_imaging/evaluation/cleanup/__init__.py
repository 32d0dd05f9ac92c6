"""Rules that remove mask components from any segmentation, and their choice on held-out cases."""
