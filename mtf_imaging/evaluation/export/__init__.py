"""Exported networks: SavedModels that TensorFlow runs without this package, and the files of other formats."""
