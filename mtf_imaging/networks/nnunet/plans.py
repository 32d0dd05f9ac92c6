"""Reads `plans.json`, in which nnU-Net describes a network and the preprocessing of its images."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError, MtfImagingError, NotSupportedError, reason
from mtf_imaging.files.json_file import read_object
from mtf_imaging.spelling import did_you_mean

PLANS = "plans.json"
_PLAIN, _RESIDUAL = "PlainConvUNet", "ResidualEncoderUNet"
_SUPPORTED = {"conv_op": ("Conv2d", "Conv3d"), "norm_op": ("InstanceNorm2d", "InstanceNorm3d")}
_SLOPES = {"LeakyReLU": 0.01, "ReLU": 0.0}  # {activation: its default slope for negative values}
_KNOWN = {
    *("n_stages", "features_per_stage", "conv_op", "kernel_sizes", "strides", "n_conv_per_stage", "n_blocks_per_stage"),
    *("n_conv_per_stage_decoder", "conv_bias", "norm_op", "norm_op_kwargs", "nonlin", "nonlin_kwargs"),
    "dropout_op_kwargs",
}


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The U-Net of a configuration.

    Attributes:
      is_residual: whether the encoder has residual blocks.
      features: the channels of each stage.
      kernels, strides: the sizes of the kernels and the strides of each stage, for each axis.
      encoder, decoder: the number of convolutions, or of residual blocks, in each stage.
      has_bias: whether convolutions have a bias.
      epsilon: the number that instance norms add to the variance.
      slope: the slope of the activations for negative values.
    """

    is_residual: bool
    features: list[int]
    kernels: list[list[int]]
    strides: list[list[int]]
    encoder: list[int]
    decoder: list[int]
    has_bias: bool
    epsilon: float
    slope: float


def find_plans(path: Path) -> Path:
    """Returns the `plans.json` of a model.

    Args:
      path: the folder of the model, the folder of a fold, or a checkpoint.
    """
    folders = [path, *path.parents] if path.is_dir() else [*path.parents]
    for folder in folders[:2]:
        if (folder / PLANS).is_file():
            return folder / PLANS
    raise DataError(
        f"{path}: there is no {PLANS} in {' nor in '.join(map(str, folders[:2]))}. Fix: pass the folder of a trained "
        "model of nnU-Net, which contains it."
    )


@contextlib.contextmanager
def plans_named(path: Path) -> Iterator[None]:
    """Reports missing or malformed entries of plans, which Python finds when they are used."""
    try:
        yield
    except MtfImagingError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"has no entry {error}" if isinstance(error, KeyError) else f"has a malformed entry: {reason(error)}"
        raise DataError(f"{path}: it {what}. Fix: copy the file from the trained model again.") from error


def read_configuration(path: Path, stated: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the plans, and one of their configurations with the entries that it inherits.

    Args:
      path: a `plans.json`.
      stated: name of the configuration; None for that of the folder's name, or for the only one.
    """
    plans = read_object(path)
    with plans_named(path):
        known = dict(plans["configurations"])
        named = path.absolute().parent.name.rpartition("__")[2]
        name = stated or (named if named in known else next(iter(known)))
        if name not in known or (not stated and name != named and len(known) > 1):
            what = f"has no configuration {stated!r}.{did_you_mean(stated, known)}" if stated else "has several."
            raise DataError(f"{path}: it {what} Fix: choose one of the configurations {', '.join(known)}.")
        lines = [known[name]]
        while (parent := lines[-1].get("inherits_from")) is not None:
            if len(lines) > len(known):
                raise ValueError(f"the configuration '{name}' inherits from itself")
            lines.append(known[parent])
        return plans, {key: value for line in reversed(lines) for key, value in line.items()}


def _each(value: Any, count: int) -> list[Any]:
    """Returns one value for each of `count` stages or axes; a single value stands for all of them."""
    values = value if isinstance(value, list) else [value] * count
    if len(values) != count:
        raise ValueError(f"{value} has {len(values)} values instead of {count}")
    return values


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 < value < 2**16:
        raise ValueError(f"{value!r} is not a positive whole number")
    return value


def read_architecture(path: Path, configuration: Mapping[str, Any]) -> Architecture:
    """Returns the U-Net of a configuration.

    Raises:
      DataError: an entry is missing or malformed.
      NotSupportedError: it is not a U-Net of nnU-Net, or has unusual layers. The error lists all of them.
    """
    with plans_named(path):
        described = configuration.get("architecture") or _of_old_plans(configuration)
        name, given = described["network_class_name"].rpartition(".")[2], described["arch_kwargs"]
        ops = {key: str(given[key]).rpartition(".")[2] for key in (*_SUPPORTED, "nonlin")}
        faults = [f"{key} {ops[key]}" for key, supported in _SUPPORTED.items() if ops[key] not in supported]
        faults += [f"nonlin {ops['nonlin']}"] if ops["nonlin"] not in _SLOPES else []
        faults += [name] if name not in (_PLAIN, _RESIDUAL) else []
        faults += [f"{key} = {value}" for key, value in given.items() if key not in _KNOWN and value]
        norm, nonlin = given.get("norm_op_kwargs") or {}, given.get("nonlin_kwargs") or {}
        faults += ["instance norms without weights"] if not norm.get("affine") else []
        if faults:
            raise NotSupportedError(
                f"{path}: the architecture has {', '.join(faults)}, but {_PLAIN} and {_RESIDUAL} with instance norms "
                f"and {' or '.join(_SLOPES)} are supported. Fix: export the network to ONNX, and load this file."
            )
        features = [*map(_whole, given["features_per_stage"])]
        stages, dims = len(features), int(ops["conv_op"][-2])
        kernels, strides = (
            [[*map(_whole, _each(each, dims))] for each in _each(given[key], stages)]
            for key in ("kernel_sizes", "strides")
        )
        counts = _each(given["n_blocks_per_stage" if name == _RESIDUAL else "n_conv_per_stage"], stages)
        return Architecture(
            is_residual=name == _RESIDUAL,
            features=features,
            kernels=kernels,
            strides=strides,
            encoder=[*map(_whole, counts)],
            decoder=[*map(_whole, _each(given["n_conv_per_stage_decoder"], stages - 1))],
            has_bias=bool(given.get("conv_bias")),
            epsilon=float(norm.get("eps", 1e-5)),
            slope=float(nonlin.get("negative_slope", _SLOPES[ops["nonlin"]])),
        )


def _of_old_plans(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `architecture` of a configuration that nnU-Net wrote before 2.4."""
    kernels, name = configuration["conv_kernel_sizes"], configuration["UNet_class_name"]
    first, most = configuration["UNet_base_num_features"], configuration["unet_max_num_features"]
    dims, counts = len(kernels[0]), "n_blocks_per_stage" if name == _RESIDUAL else "n_conv_per_stage"
    return {
        "network_class_name": name,
        "arch_kwargs": {
            "features_per_stage": [min(first * 2**i, most) for i in range(len(kernels))],
            "conv_op": f"Conv{dims}d",
            "kernel_sizes": kernels,
            "strides": configuration["pool_op_kernel_sizes"],
            counts: configuration["n_conv_per_stage_encoder"],
            "n_conv_per_stage_decoder": configuration["n_conv_per_stage_decoder"],
            "conv_bias": True,
            "norm_op": f"InstanceNorm{dims}d",
            "norm_op_kwargs": {"affine": True},
            "nonlin": "LeakyReLU",
        },
    }
