"""The frame of exported networks: SavedModels, which TensorFlow runs without this package."""
