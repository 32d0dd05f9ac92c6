"""The commands as Python functions, which take keyword arguments instead of flags and gin files.

    import mtf_imaging as mi

    mi.jobs.convert(input_dir="cases", output_dir="records", resolution=64)
    data, layout = mi.jobs.TrainingData("records"), mi.Layout.parse("rows:2", "x:rows")
    mi.jobs.train(task=task, data=data, layout=layout, model_dir="run")
    mi.jobs.evaluate(task=task, model_dir="run", input_dir="held_out", output_dir="evaluation")

Each function is imported when it is first used. TensorFlow is imported only by the functions that need it.
"""

from typing import TYPE_CHECKING, Any

from mtf_imaging.files.log_lines import import_quietly

if TYPE_CHECKING:
    from mtf_imaging.jobs.benching import bench
    from mtf_imaging.jobs.converting import convert
    from mtf_imaging.jobs.cross_validating import cross_validate
    from mtf_imaging.jobs.data.training_data import TrainingData
    from mtf_imaging.jobs.evaluating import evaluate
    from mtf_imaging.jobs.explaining import explain
    from mtf_imaging.jobs.exporting import export
    from mtf_imaging.jobs.importing import ImportedWeights, import_weights
    from mtf_imaging.jobs.informing import info
    from mtf_imaging.jobs.inspecting import Inspection, inspect
    from mtf_imaging.jobs.planning import JobPlan, plan
    from mtf_imaging.jobs.predicting import predict
    from mtf_imaging.jobs.reporting import report
    from mtf_imaging.jobs.searching import largest_cube, search
    from mtf_imaging.jobs.training import train
    from mtf_imaging.jobs.verifying import verify
    from mtf_imaging.settings.step import Devices

_MODULES = {
    "Devices": "processes.devices",
    "ImportedWeights": "importing",
    "Inspection": "inspecting",
    "JobPlan": "planning",
    "TrainingData": "data.training_data",
    "bench": "benching",
    "convert": "converting",
    "cross_validate": "cross_validating",
    "evaluate": "evaluating",
    "explain": "explaining",
    "export": "exporting",
    "import_weights": "importing",
    "info": "informing",
    "inspect": "inspecting",
    "largest_cube": "searching",
    "plan": "planning",
    "predict": "predicting",
    "report": "reporting",
    "search": "searching",
    "train": "training",
    "verify": "verifying",
}

__all__ = [
    "Devices",
    "ImportedWeights",
    "Inspection",
    "JobPlan",
    "TrainingData",
    "bench",
    "convert",
    "cross_validate",
    "evaluate",
    "explain",
    "export",
    "import_weights",
    "info",
    "inspect",
    "largest_cube",
    "plan",
    "predict",
    "report",
    "search",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_quietly(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
