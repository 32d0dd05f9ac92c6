"""The output folder of a cross-validation, and its pooled scores."""
