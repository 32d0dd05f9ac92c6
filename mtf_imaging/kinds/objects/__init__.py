"""Images with the boxes and masks of objects."""
