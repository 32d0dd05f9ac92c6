"""Checks of the name that a layer gives the channels of its result."""

from typing import Any

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ConfigError, ShapeError


def check_output_name(title: str, name: Any) -> None:
    """Checks the name of a layer's channel dimension.

    Args:
      title: the layer, for error messages.
      name: the name.

    Raises:
      ConfigError: it is not a name for dimensions.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(
            f"{title}: output_name = {name!r} is not a name for a dimension. Fix: use letters, digits and '_', such as "
            "output_name='classes'."
        )


def check_output_dim(title: str, x: mtf.Tensor, name: str) -> None:
    """Checks that no other dimension of a layer's result has the name of the result's channels.

    Args:
      title: the layer, for error messages.
      x: Tensor[..., channels], the input of the layer.
      name: name of the result's channel dimension.

    Raises:
      ShapeError: a dimension before the channels has this name.
    """
    if name in x.shape.dimension_names[:-1]:
        raise ShapeError(
            f"{title}: output_name = '{name}' is the name of another dimension of the input {x.shape}. Fix: use "
            "another name, such as 'classes'."
        )
