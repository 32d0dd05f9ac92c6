"""The kinds of images with a height and a width that train takes beside records: photos and objects."""
