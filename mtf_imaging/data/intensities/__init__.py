"""Intensity schemes: how the values of an image become network input, in files, in training and in exported networks.

To add a scheme, add an entry to the table in `schemes.py`.
"""
