"""Convolutional networks on images too large for one device, with Mesh-TensorFlow layouts.

    import mtf_imaging as mi

Names are imported on first use. `mi.layout` and `mi.LayoutError` do not import TensorFlow. `mi.Program`, `mi.ops` and
`mi.mtf` (mesh_tensorflow, patched for the installed TensorFlow) do.
"""

from typing import TYPE_CHECKING, Any

from mtf_imaging.files.log_lines import import_quietly

__version__ = "0.1.0"

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from mtf_imaging import data as data
    from mtf_imaging import errors as errors
    from mtf_imaging import evaluation as evaluation
    from mtf_imaging import jobs as jobs
    from mtf_imaging import networks as networks
    from mtf_imaging import parameters as parameters
    from mtf_imaging import training as training
    from mtf_imaging.engine import layers as layers
    from mtf_imaging.engine import layout as layout
    from mtf_imaging.engine import meshes as meshes
    from mtf_imaging.engine import ops as ops
    from mtf_imaging.engine import program as program
    from mtf_imaging.engine.layout import Layout as Layout
    from mtf_imaging.engine.layout import windows as windows
    from mtf_imaging.engine.program.program import Program as Program
    from mtf_imaging.engine.upstream import mtf as mtf
    from mtf_imaging.errors import CheckpointError as CheckpointError
    from mtf_imaging.errors import ClusterError as ClusterError
    from mtf_imaging.errors import ConfigError as ConfigError
    from mtf_imaging.errors import DataError as DataError
    from mtf_imaging.errors import Interrupted as Interrupted
    from mtf_imaging.errors import LayoutError as LayoutError
    from mtf_imaging.errors import MtfImagingError as MtfImagingError
    from mtf_imaging.errors import NotSupportedError as NotSupportedError
    from mtf_imaging.errors import OutOfMemoryError as OutOfMemoryError
    from mtf_imaging.errors import ShapeError as ShapeError
    from mtf_imaging.errors import TrainingError as TrainingError
    from mtf_imaging.jobs.array_networks import predict as predict
    from mtf_imaging.jobs.fitting import fit as fit
    from mtf_imaging.training import keras as keras

# {name: (module, attribute of the module, or None for the module itself)}
_LAZY = {
    "CheckpointError": ("mtf_imaging.errors", "CheckpointError"),
    "ClusterError": ("mtf_imaging.errors", "ClusterError"),
    "ConfigError": ("mtf_imaging.errors", "ConfigError"),
    "DataError": ("mtf_imaging.errors", "DataError"),
    "Interrupted": ("mtf_imaging.errors", "Interrupted"),
    "LayoutError": ("mtf_imaging.errors", "LayoutError"),
    "MtfImagingError": ("mtf_imaging.errors", "MtfImagingError"),
    "NotSupportedError": ("mtf_imaging.errors", "NotSupportedError"),
    "Layout": ("mtf_imaging.engine.layout", "Layout"),
    "OutOfMemoryError": ("mtf_imaging.errors", "OutOfMemoryError"),
    "Program": ("mtf_imaging.engine.program.program", "Program"),
    "ShapeError": ("mtf_imaging.errors", "ShapeError"),
    "TrainingError": ("mtf_imaging.errors", "TrainingError"),
    "data": ("mtf_imaging.data", None),
    "errors": ("mtf_imaging.errors", None),
    "fit": ("mtf_imaging.jobs.fitting", "fit"),
    "evaluation": ("mtf_imaging.evaluation", None),
    "jobs": ("mtf_imaging.jobs", None),
    "keras": ("mtf_imaging.training.keras", None),
    "layers": ("mtf_imaging.engine.layers", None),
    "layout": ("mtf_imaging.engine.layout", None),
    "meshes": ("mtf_imaging.engine.meshes", None),
    "mtf": ("mtf_imaging.engine.upstream", "mtf"),  # its corrections are applied
    "networks": ("mtf_imaging.networks", None),
    "ops": ("mtf_imaging.engine.ops", None),
    "predict": ("mtf_imaging.jobs.array_networks", "predict"),
    "parameters": ("mtf_imaging.parameters", None),
    "program": ("mtf_imaging.engine.program", None),
    "training": ("mtf_imaging.training", None),
    "windows": ("mtf_imaging.engine.layout.windows", None),
}

__all__ = ["__version__", *_LAZY]


if not TYPE_CHECKING:  # a checker would take any name for granted

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module_name, attribute = _LAZY[name]
        module = import_quietly(module_name)
        value = getattr(module, attribute) if attribute else module
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
