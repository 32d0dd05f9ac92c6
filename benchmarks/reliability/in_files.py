"""Keeps the arrays of small volumes in files, like those of large volumes; a gin file imports this module."""

from mtf_imaging.files import blocks

blocks.IN_MEMORY = 0
