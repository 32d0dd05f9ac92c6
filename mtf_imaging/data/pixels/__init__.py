"""Images with a height and a width, which photos and images with objects share."""
