"""Reads images and masks of any format, whole or region by region."""
