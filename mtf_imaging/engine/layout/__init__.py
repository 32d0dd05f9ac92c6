"""Layouts: the `Layout` class, the grammar of layout strings, and conversion from other systems. Pure Python."""

from mtf_imaging.engine.layout.grammar import (
    Rules,
    Shape,
    check_names,
    format_rules,
    format_shape,
    parse_layout,
    parse_shape,
)
from mtf_imaging.engine.layout.layout import MESH_IMPLS, ONE_PROCESSOR, Layout
from mtf_imaging.engine.layout.partition_dims import (
    PartitionedLayout,
    from_partition_dims,
    num_dims,
    parse_partition_dims,
)
from mtf_imaging.engine.layout.regions import TensorRegion, whole_tensor
from mtf_imaging.engine.layout.slices import Slices, UnevenSplit, uneven_splits
from mtf_imaging.errors import LayoutError

__all__ = [
    "MESH_IMPLS",
    "ONE_PROCESSOR",
    "Layout",
    "LayoutError",
    "PartitionedLayout",
    "Rules",
    "Shape",
    "Slices",
    "TensorRegion",
    "UnevenSplit",
    "check_names",
    "format_rules",
    "format_shape",
    "from_partition_dims",
    "num_dims",
    "parse_layout",
    "parse_partition_dims",
    "parse_shape",
    "uneven_splits",
    "whole_tensor",
]
