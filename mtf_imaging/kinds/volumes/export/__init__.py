"""Networks for volumes as SavedModels."""
