"""Plans data sets with the planner of nnU-Net 2; `benchmarks.plan_table` starts it with another Python.

Reads the data sets from stdin, and prints their plans, both as JSON.
"""

import contextlib
import json
import math
import os
import sys
import tempfile
import types
from importlib.metadata import version
from pathlib import Path


def plan(number, data, root):
    """Returns the plan of a data set: of its 3-D configuration at full resolution, or its 2-D configuration."""
    from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    name, ending = f"Dataset{number:03d}_Planned", data["ending"]
    cases = {f"c{case}": {"images": [f"c{case}{ending}"], "label": ""} for case in range(data["cases"])}
    channels = {str(number): name for number, name in enumerate(data["channels"])}
    described = {"channel_names": channels, "labels": data["labels"], "numTraining": data["cases"]}
    described |= {"file_ending": ending, "dataset": cases}
    measured = {
        "spacings": [data["spacing"]] * data["cases"],
        "shapes_after_crop": [data["shape"]] * data["cases"],
        "foreground_intensity_properties_per_channel": {},
        "median_relative_size_after_cropping": data["share"],
    }
    for folder, file, fields in (("raw", "dataset", described), ("pre", "dataset_fingerprint", measured)):
        path = Path(root, folder, name)
        path.mkdir(parents=True)
        path.joinpath(f"{file}.json").write_text(json.dumps(fields))
    planner = ExperimentPlanner(name)
    planner.determine_reader_writer = lambda: types.SimpleNamespace(__name__="")  # there are no files
    plans = planner.plan_experiment()["configurations"]
    own = plans.get("3d_fullres", plans["2d"])
    network, patch = own["architecture"]["arch_kwargs"], [int(size) for size in own["patch_size"]]
    manager = types.SimpleNamespace(patch_size=patch)
    trainer = types.SimpleNamespace(configuration_manager=manager, print_to_log_file=lambda *_: None)
    angles, _, _, axes = nnUNetTrainer.configure_rotation_dummyDA_mirroring_and_inital_patch_size(trainer)
    return {
        "data": data,
        "spacing": [float(mm) for mm in own["spacing"]],
        "patch": patch,
        "batch": int(own["batch_size"]),
        "kernels": [[*map(int, sizes)] for sizes in network["kernel_sizes"]],
        "pools": [[*map(int, sizes)] for sizes in network["strides"][1:]],
        "filters": [*network["features_per_stage"]],
        "intensities": own["normalization_schemes"],
        "masked": own["use_mask_for_norm"],
        "rotation": round(math.degrees(angles[1])),
        "flips": len(axes),
        "low_resolution": "3d_lowres" in plans,
    }


def main():
    with tempfile.TemporaryDirectory() as root:
        for name, folder in (("raw", "raw"), ("preprocessed", "pre"), ("results", "results")):
            os.environ[f"nnUNet_{name}"] = str(Path(root, folder))
        with contextlib.redirect_stdout(sys.stderr):
            plans = {
                name: plan(number, data, root) for number, (name, data) in enumerate(json.load(sys.stdin).items(), 1)
            }
    print(json.dumps({"version": version("nnunetv2"), "plans": plans}, indent=1))


if __name__ == "__main__":
    main()
