"""Refuses tensors in which two dimensions have the same name."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.upstream.faults import title
from mtf_imaging.errors import ShapeError


def _check_names(operation: mtf.Operation, shape: mtf.Shape) -> None:
    """Checks that every dimension of a result has a name of its own.

    mesh_tensorflow refuses two equal dimensions, but not two sizes of one name. The sum of two images of different
    sizes, for instance, would be every pair of voxels.

    Raises:
      ShapeError: two dimensions have the same name.
    """
    sizes: dict[str, int] = {}
    for dim in shape.dims:
        if dim.name in sizes:
            inputs = " and ".join(str(x.shape) for x in operation.inputs)
            raise ShapeError(
                f"{title(operation)}: the result would have two dimensions '{dim.name}', of sizes {sizes[dim.name]} "
                f"and {dim.size}. The inputs are {inputs}. Fix: resize or crop an input, or rename one dimension with "
                "mtf.rename_dimension."
            )
        sizes[dim.name] = dim.size


def apply() -> None:
    """Adds the check to the constructor of `mtf.Tensor`."""
    construct = mtf.Tensor.__init__

    def init(tensor: mtf.Tensor, operation: mtf.Operation, shape: mtf.Shape, *args: object, **kwargs: object) -> None:
        _check_names(operation, shape)
        construct(tensor, operation, shape, *args, **kwargs)

    mtf.Tensor.__init__ = init
