"""Trained networks as functions of images, under any layout: whole images, batches, windows, and averages of them."""
