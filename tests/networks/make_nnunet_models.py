"""Writes the folders of small nnU-Net models in `tests/networks/data`, with random weights.

They have the files and the checkpoints that nnU-Net 2 writes, an ONNX export, and the logits of PyTorch. The tests read
them without PyTorch. To write them again:

    pip install torch dynamic-network-architectures onnx
    python tests/networks/make_nnunet_models.py
"""

import json
import pydoc
from pathlib import Path

import numpy as np
import torch

DATA = Path(__file__).parent / "data"
CLASSES = "dynamic_network_architectures.architectures.unet"
INTENSITIES = {"max": 900.0, "mean": 81.5, "median": 83.0, "min": -350.0, "percentile_00_5": -42.0,
               "percentile_99_5": 187.0, "std": 34.25}  # fmt: skip


def architecture(name, counts, **arguments):
    """Returns the entry `architecture` of a configuration."""
    dims = len(arguments["strides"][0])
    return {
        "network_class_name": f"{CLASSES}.{name}",
        "arch_kwargs": {
            "n_stages": len(arguments["strides"]),
            **arguments,
            "conv_op": f"torch.nn.modules.conv.Conv{dims}d",
            "n_blocks_per_stage" if "Residual" in name else "n_conv_per_stage": counts,
            "conv_bias": True,
            "norm_op": f"torch.nn.modules.instancenorm.InstanceNorm{dims}d",
            "norm_op_kwargs": {"eps": 1e-05, "affine": True},
            "dropout_op": None,
            "dropout_op_kwargs": None,
            "nonlin": "torch.nn.LeakyReLU",
            "nonlin_kwargs": {"inplace": True},
        },
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
    }


PLAIN = architecture(
    "PlainConvUNet", [1, 2], features_per_stage=[3, 4], kernel_sizes=[[1, 3, 3], [3, 3, 3]],
    strides=[[1, 1, 1], [1, 2, 2]], n_conv_per_stage_decoder=[2],
)  # fmt: skip
RESIDUAL = architecture(
    "ResidualEncoderUNet", [1, 1, 1], features_per_stage=[2, 2, 3], kernel_sizes=[[3, 3, 3], [3, 3, 3], [3, 3, 1]],
    strides=[[1, 1, 1], [2, 2, 2], [2, 2, 1]], n_conv_per_stage_decoder=[1, 1],
)  # fmt: skip
FLAT = architecture(
    "PlainConvUNet", [1, 2], features_per_stage=[3, 5], kernel_sizes=[[3, 3], [3, 3]], strides=[[1, 1], [2, 2]],
    n_conv_per_stage_decoder=[1],
)  # fmt: skip
# Plans before nnU-Net 2.4 describe the architecture in other words.
OLD = {"UNet_class_name": "PlainConvUNet", "UNet_base_num_features": 3, "unet_max_num_features": 5,
       "n_conv_per_stage_encoder": [1, 2], "n_conv_per_stage_decoder": [1], "num_pool_per_axis": [1, 1],
       "pool_op_kernel_sizes": [[1, 1], [2, 2]], "conv_kernel_sizes": [[3, 3], [3, 3]]}  # fmt: skip

MODELS = {
    "plain__3d_fullres": (
        PLAIN,
        {"3d_fullres": {"patch_size": [4, 12, 8], "spacing": [3.0, 0.8, 0.75], "architecture": PLAIN,
                        "normalization_schemes": ["CTNormalization"], "use_mask_for_norm": [False]}},
        {"transpose_forward": [0, 1, 2], "image_reader_writer": "SimpleITKIO"},
        {"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "tumor": 2}},
        (0, 1, 2),
    ),
    "residual__3d_fullres": (
        RESIDUAL,
        {"base": {"patch_size": [8, 12, 4], "spacing": [1.0, 1.0, 2.0], "architecture": RESIDUAL,
                  "normalization_schemes": ["ZScoreNormalization"] * 2, "use_mask_for_norm": [True, False]},
         "3d_fullres": {"inherits_from": "base", "batch_size": 4}},
        {"transpose_forward": [2, 0, 1], "image_reader_writer": "NibabelIOWithReorient"},
        {"channel_names": {"0": "FLAIR", "1": "T1w"}, "regions_class_order": [1, 2],
         "labels": {"background": 0, "whole tumor": [1, 2], "tumor core": 2}},
        (0, 2),
    ),
    "flat__2d": (
        FLAT,
        {"2d": {"patch_size": [12, 8], "spacing": [0.5, 0.5], **OLD,
                "normalization_schemes": ["RescaleTo01Normalization"], "use_mask_for_norm": [False]}},
        {"transpose_forward": [0, 1, 2], "image_reader_writer": "SimpleITKIO"},
        {"channel_names": {"0": "rescale_to_0_1"}, "labels": {"background": 0, "cell": 1}},
        None,
    ),
}  # fmt: skip


def network(architecture, channels, classes, deep_supervision):
    """Returns the network of PyTorch, as nnU-Net builds it."""
    arguments = dict(architecture["arch_kwargs"])
    for name in architecture["_kw_requires_import"]:
        arguments[name] = arguments[name] and pydoc.locate(arguments[name])
    return pydoc.locate(architecture["network_class_name"])(
        input_channels=channels, num_classes=classes, deep_supervision=deep_supervision, **arguments
    )


def checkpoint(model, configuration, plans, dataset, mirroring):
    """Returns what nnU-Net saves: weights, the state of the optimizer, logs with numbers of NumPy, and settings."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.99, nesterov=True)
    state = optimizer.state_dict()
    state["state"] = {0: {"momentum_buffer": torch.ones(2)}}  # instead of a copy of all weights
    return {
        "network_weights": model.state_dict(),
        "optimizer_state": state,
        "grad_scaler_state": {"scale": 65536.0},
        "logging": {"mean_fg_dice": [np.float32(0.5)], "dice_per_class_or_region": [[np.float64(0.5)]]},
        "_best_ema": np.float64(0.5),
        "current_epoch": 1000,
        "init_args": {"plans": plans, "configuration": configuration, "fold": 0, "dataset_json": dataset,
                      "device": torch.device("cpu")},
        "trainer_name": "nnUNetTrainer",
        "inference_allowed_mirroring_axes": mirroring,
    }  # fmt: skip


def write(name):
    """Writes the folder of a model."""
    described, configurations, plans, dataset, mirroring = MODELS[name]
    plans = {"dataset_name": "Dataset001_Small", "plans_name": "nnUNetPlans", **plans, "configurations": configurations,
             "foreground_intensity_properties_per_channel": {"0": INTENSITIES}}  # fmt: skip
    dataset = {**dataset, "numTraining": 20, "file_ending": ".nii.gz"}
    folder = DATA / name
    (folder / "fold_0").mkdir(parents=True, exist_ok=True)
    (folder / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (folder / "dataset.json").write_text(json.dumps(dataset, indent=1) + "\n")
    torch.manual_seed(0)
    channels, regions = len(dataset["channel_names"]), dataset.get("regions_class_order", dataset["labels"])
    training = network(described, channels, len(regions), True)
    with torch.no_grad():
        for weight in training.parameters():
            weight += 0.1 * torch.randn_like(weight)
    configuration, sizes = name.split("__")[1], next(iter(configurations.values()))["patch_size"]
    state = checkpoint(training, configuration, plans, dataset, mirroring)
    torch.save(state, folder / "fold_0" / "checkpoint_final.pth")
    image = torch.randn(1, channels, *sizes)
    logits = [y.detach().numpy() for y in training(image)]
    np.savez_compressed(folder / "reference.npz", image=image.numpy(), **{str(i): y for i, y in enumerate(logits)})
    if len(sizes) == 3:
        model = network(described, channels, len(regions), False).eval()
        model.load_state_dict(training.state_dict())
        free = {0: "batch", **{2 + i: f"size_{i}" for i in range(len(sizes))}}
        torch.onnx.export(
            model, (image,), folder / "network.onnx", input_names=["image"], output_names=["logits"], opset_version=17,
            dynamic_axes={"image": free, "logits": free}, dynamo=False,
        )  # fmt: skip


if __name__ == "__main__":
    for each in MODELS:
        write(each)
