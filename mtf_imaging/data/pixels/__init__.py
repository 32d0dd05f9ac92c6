"""Code for images with a height and a width, shared by photos and images with objects."""
