"""Layouts as strings: their grammar, and what the conventions of other systems are in it. Pure Python."""

from mtf_imaging.errors import LayoutError
from mtf_imaging.layout.grammar import (
    Layout,
    Shape,
    check_names,
    format_layout,
    format_shape,
    parse_layout,
    parse_shape,
    restrict,
)
from mtf_imaging.layout.partition_dims import PartitionedLayout, from_partition_dims, num_dims, parse_partition_dims

__all__ = [
    "Layout",
    "LayoutError",
    "PartitionedLayout",
    "Shape",
    "check_names",
    "format_layout",
    "format_shape",
    "from_partition_dims",
    "num_dims",
    "parse_layout",
    "parse_partition_dims",
    "parse_shape",
    "restrict",
]
