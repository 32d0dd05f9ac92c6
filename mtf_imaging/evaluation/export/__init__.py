"""Trained networks as SavedModels, which TensorFlow runs without this package."""
