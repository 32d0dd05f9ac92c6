"""Every ONNX operator equals ONNX Runtime under every layout, and its gradients equal TensorFlow's."""

import numpy as np
import pytest

from mtf_imaging.networks.onnx.registry import OPERATORS

pytest.importorskip("onnxruntime")

from tests.networks.onnx_models import Builder, check, saved, weight

IMAGE, VOLUME, LINE, VECTOR = (2, 3, 6, 7), (2, 3, 6, 5, 4), (2, 4, 8), (3, 6)
FOUR = (2, 4, 6, 7)
INTS = np.int64


def ints(*values):
    return np.array(values, INTS)


def case(operator, *inputs, shape=IMAGE, opset=None, outputs=1, **attributes):
    """Returns a graph of one operator on the input "image"."""
    return {"nodes": [(operator, ("image", *inputs), outputs, attributes)], "shape": shape, "opset": opset}


# After these operators, the last axis is the channels, unless an operator with channels follows.
POOL = ("MaxPool", (0,), 1, {"kernel_shape": [1, 1]})
# fmt: off
CASES = {
    "Conv": case("Conv", weight(4, 3, 3, 3), weight(4), pads=[1, 1, 1, 1]),
    "Conv strided": case("Conv", weight(4, 3, 3, 2), strides=[2, 1], pads=[0, 1, 1, 0]),
    "Conv dilated": case("Conv", weight(4, 3, 2, 3), dilations=[2, 2], pads=[1, 2, 1, 2]),
    "Conv lower": case("Conv", weight(4, 3, 2, 2), strides=[2, 2], auto_pad="SAME_LOWER"),
    "Conv strided and dilated": case("Conv", weight(4, 3, 2, 2), strides=[2, 1], dilations=[2, 3], pads=[2, 0, 1, 3]),
    "Conv valid": case("Conv", weight(4, 3, 3, 3), auto_pad="VALID"),
    "Conv groups": case("Conv", weight(6, 2, 3, 3), weight(6), group=2, pads=[1, 1, 1, 1], shape=FOUR),
    "Conv depthwise": case("Conv", weight(3, 1, 3, 3), group=3, pads=[1, 1, 1, 1]),
    "Conv 1d": case("Conv", weight(4, 4, 3), weight(4), pads=[2, 2], dilations=[2], shape=LINE),
    "Conv 3d": case("Conv", weight(4, 3, 3, 3, 2), weight(4), strides=[2, 2, 1], pads=[1] * 6, shape=VOLUME),
    "Conv 3d groups": case("Conv", weight(3, 1, 3, 3, 3), group=3, pads=[1] * 6, shape=VOLUME),
    "ConvTranspose": case("ConvTranspose", weight(3, 4, 2, 2), weight(4), strides=[2, 2]),
    "ConvTranspose pads": case("ConvTranspose", weight(3, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1],
                               output_padding=[1, 1]),
    "ConvTranspose beyond": case("ConvTranspose", weight(3, 4, 2, 2), weight(4), strides=[3, 3], output_padding=[1, 2]),
    "ConvTranspose shape": case("ConvTranspose", weight(3, 4, 3, 3), strides=[2, 2], output_shape=[12, 14]),
    "ConvTranspose same": case("ConvTranspose", weight(3, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "ConvTranspose dilated": case("ConvTranspose", weight(3, 4, 2, 2), dilations=[2, 2]),
    "ConvTranspose groups": case("ConvTranspose", weight(4, 3, 3, 3), weight(6), strides=[2, 2], group=2,
                                 pads=[1, 1, 1, 0], shape=FOUR),
    "ConvTranspose 1d groups": case("ConvTranspose", weight(4, 1, 3), strides=[2], group=4, dilations=[2], shape=LINE),
    "ConvTranspose 3d groups": case("ConvTranspose", weight(4, 2, 3, 2, 2), weight(4), strides=[2, 2, 1], group=2,
                                    pads=[1, 0, 0, 1, 1, 0], output_padding=[1, 0, 0], shape=(2, 4, 6, 5, 4)),
    "ConvTranspose 1d": case("ConvTranspose", weight(4, 3, 3), strides=[2], pads=[1, 0], shape=LINE),
    "ConvTranspose 3d": case("ConvTranspose", weight(3, 4, 2, 2, 2), weight(4), strides=[2, 2, 2], shape=VOLUME),
    "MaxPool": case("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "MaxPool ceil": case("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    "MaxPool dilated": case("MaxPool", kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 1, 1, 1]),
    "MaxPool sparse": case("MaxPool", kernel_shape=[2, 1], strides=[3, 2], pads=[1, 0, 0, 0]),
    "MaxPool 1d": case("MaxPool", kernel_shape=[2], strides=[2], shape=LINE),
    "MaxPool 3d": case("MaxPool", kernel_shape=[2, 2, 2], strides=[2, 2, 2], shape=VOLUME),
    "AveragePool": case("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1]),
    "AveragePool counts": case("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 0, 1], count_include_pad=1),
    "AveragePool ceil": case("AveragePool", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    "AveragePool ceil counts": case("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
                                    count_include_pad=1, opset=22),
    "AveragePool dilated": case("AveragePool", kernel_shape=[2, 2], dilations=[2, 2], opset=19),
    "AveragePool sparse": case("AveragePool", kernel_shape=[2, 2], strides=[3, 3], pads=[0, 1, 1, 0], ceil_mode=1),
    "AveragePool same": case("AveragePool", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    "AveragePool 3d": case("AveragePool", kernel_shape=[2, 2, 2], shape=VOLUME),
    "GlobalAveragePool": case("GlobalAveragePool", shape=VOLUME),
    "GlobalMaxPool": case("GlobalMaxPool"),
    "BatchNormalization": case("BatchNormalization", weight(3), weight(3), weight(3), weight(3, low=0.5), shape=VOLUME,
                               epsilon=1e-3),
    "InstanceNormalization": case("InstanceNormalization", weight(3), weight(3), shape=VOLUME),
    "InstanceNormalization 2d": case("InstanceNormalization", weight(3), weight(3), epsilon=1e-3),
    "GroupNormalization 18": case("GroupNormalization", weight(2), weight(2), num_groups=2, opset=18, shape=FOUR),
    "GroupNormalization 21": case("GroupNormalization", weight(4), weight(4), num_groups=2, opset=21, shape=FOUR),
    "LayerNormalization": {"nodes": [("LayerNormalization", ("image", weight(7), weight(7)), 1, {}), POOL],
                           "shape": IMAGE},
    "LayerNormalization axes": {"nodes": [("LayerNormalization", ("image", weight(3, 6, 7)), 1, {"axis": 1}), POOL],
                                "shape": IMAGE},
    "MeanVarianceNormalization": case("MeanVarianceNormalization"),
    "LpNormalization": case("LpNormalization", axis=1),
    "LpNormalization 1": case("LpNormalization", axis=2, p=1),
    "Resize nearest": case("Resize", "", np.float32([1, 1, 2, 2])),
    "Resize nearest asymmetric": case("Resize", "", np.float32([1, 1, 2, 3]), mode="nearest", nearest_mode="floor",
                                      coordinate_transformation_mode="asymmetric"),
    "Resize nearest sizes": case("Resize", "", "", ints(2, 3, 9, 4), nearest_mode="round_prefer_ceil"),
    "Resize nearest ceil": case("Resize", "", "", ints(2, 3, 4, 9), nearest_mode="ceil"),
    "Resize linear": case("Resize", "", np.float32([1, 1, 2, 2]), mode="linear"),
    "Resize linear sizes": case("Resize", "", "", ints(2, 3, 9, 4), mode="linear",
                                coordinate_transformation_mode="pytorch_half_pixel"),
    "Resize linear aligned": case("Resize", "", "", ints(2, 3, 11, 4), mode="linear",
                                  coordinate_transformation_mode="align_corners"),
    "Resize linear symmetric": case("Resize", "", np.float32([1, 1, 1.4, 0.6]), mode="linear", opset=19,
                                    coordinate_transformation_mode="half_pixel_symmetric"),
    "Resize linear fractions": case("Resize", "", np.float32([1, 1, 1.7, 0.6]), mode="linear",
                                    coordinate_transformation_mode="asymmetric"),
    "Resize crop": case("Resize", np.float32([0, 0, 0.1, -0.2, 1, 1, 0.9, 0.8]), "", ints(2, 3, 9, 8), mode="linear",
                        coordinate_transformation_mode="tf_crop_and_resize"),
    "Resize linear 3d": case("Resize", "", np.float32([1, 1, 2, 2, 2]), mode="linear", shape=VOLUME),
    "Resize antialias": case("Resize", "", "", ints(2, 3, 4, 3), mode="linear", antialias=1, opset=18),
    "Resize axes": case("Resize", "", "", ints(8, 9), mode="linear", axes=[2, 3], opset=18),
    "Resize policy": case("Resize", "", "", ints(8, 9), mode="linear", axes=[2, 3], opset=18,
                          keep_aspect_ratio_policy="not_larger"),
    "Resize cubic": case("Resize", "", np.float32([1, 1, 2, 2]), mode="cubic"),
    "Resize cubic excluded": case("Resize", "", "", ints(2, 3, 9, 8), mode="cubic", cubic_coeff_a=-0.5,
                                  exclude_outside=1),
    "Concat": {"nodes": [("Relu", ("image",), 1, {}), ("Concat", ("image", 0), 1, {"axis": 1})], "shape": IMAGE},
    "Concat spatial": {"nodes": [("Relu", ("image",), 1, {}), ("Concat", ("image", 0), 1, {"axis": 2})],
                       "shape": IMAGE},
    "Split": case("Split", shape=FOUR, outputs=2, axis=1, opset=13),
    "Split sizes": case("Split", ints(2, 4), outputs=2, axis=2),
    "Split number": case("Split", outputs=2, axis=3, num_outputs=2, opset=18),
    "Slice": case("Slice", ints(1, -5), ints(2**62, -1), ints(1, 3)),
    "Slice steps": case("Slice", ints(-1, 0), ints(-(2**62), 7), ints(2, 3), ints(-1, 2)),
    "Pad": case("Pad", ints(0, 0, 1, 2, 0, 1, 0, 3), np.float32(0.5)),
    "Pad reflect": case("Pad", ints(0, 0, 1, 2, 0, 0, 3, 0), mode="reflect"),
    "Pad edge": case("Pad", ints(0, 0, 1, 2, 0, 0, 3, 0), mode="edge"),
    "Pad wrap": case("Pad", ints(1, 2, 3, 0), "", ints(2, 3), mode="wrap", opset=19),
    "Pad negative": case("Pad", ints(0, 0, -1, 2, 0, 0, 1, -2)),
    "Add": case("Add", weight(1, 3, 1, 1)),
    "Sub": case("Sub", weight(3, 6, 7)),
    "Mul": case("Mul", np.float32(0.5)),
    "Div": case("Div", weight(7, low=0.5)),
    "Div ints": {"nodes": [("Mul", ("image", np.float32(9)), 1, {}), ("Cast", (0,), 1, {"to": 7}),
                           ("Div", (1, ints(4)), 1, {}), ("Cast", (2,), 1, {"to": 1}), ("Mul", (3, "image"), 1, {})],
                 "shape": IMAGE},
    "Pow": case("Pow", np.float32(2)),
    "Pow 3": case("Pow", ints(3)),
    "Mod": case("Mod", np.float32(0.7), fmod=1),
    "Max": case("Max", weight(1, 3, 1, 1), np.float32(0)),
    "Min": case("Min", weight(1, 3, 1, 1)),
    "Mean": case("Mean", weight(1, 3, 1, 1), "image"),
    "Sum": case("Sum", "image", weight(7)),
    "Clip": case("Clip", np.float32(-0.5), np.float32(0.6)),
    "Clip low": case("Clip", "", np.float32(0.6)),
    "Where": {"nodes": [("Greater", ("image", weight(7)), 1, {}), ("Where", (0, "image", np.float32(2)), 1, {})],
              "shape": IMAGE},
    "Comparisons": {"nodes": [
        ("Less", ("image", weight(7)), 1, {}), ("GreaterOrEqual", ("image", np.float32(0)), 1, {}),
        ("LessOrEqual", ("image", np.float32(1)), 1, {}), ("Equal", ("image", "image"), 1, {}),
        ("And", (1, 2), 1, {}), ("Or", (0, 4), 1, {}), ("Xor", (5, 3), 1, {}), ("Not", (6,), 1, {}),
        ("IsNaN", ("image",), 1, {}), ("IsInf", ("image",), 1, {}), ("Or", (8, 9), 1, {}), ("Or", (7, 10), 1, {}),
        ("Cast", (11,), 1, {"to": 1}), ("Mul", (12, "image"), 1, {})], "shape": IMAGE},
    "IsInf above": {"nodes": [
        ("Relu", ("image",), 1, {}), ("Reciprocal", (0,), 1, {}), ("Neg", (1,), 1, {}),
        ("IsInf", (1,), 1, {"detect_negative": 0}), ("IsInf", (2,), 1, {"detect_negative": 0}),
        ("Where", (3, "image", np.float32(2)), 1, {}), ("Where", (4, np.float32(3), 5), 1, {})], "shape": IMAGE},
    **{name: case(name) for name in (
        *("Abs", "Atan", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "Identity", "LeakyRelu"),
        *("LogSoftmax", "Neg", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax"),
        *("Softplus", "Softsign", "Tan", "Tanh", "ThresholdedRelu", "Celu", "Asinh", "HardSwish"),
    )},
    "Elu alpha": case("Elu", alpha=0.4),
    "Softmax channels": case("Softmax", axis=1),
    "LogSoftmax spatial": case("LogSoftmax", axis=2),
    "Mish": case("Mish", opset=18),
    "Gelu": case("Gelu", opset=20),
    "Gelu tanh": case("Gelu", opset=20, approximate="tanh"),
    "PRelu": case("PRelu", weight(3, 1, 1)),
    "PRelu one": case("PRelu", weight(1)),
    **{name: {"nodes": [("Sigmoid", ("image",), 1, {}), (name, (0,), 1, {})], "shape": IMAGE}
       for name in ("Log", "Sqrt", "Reciprocal", "Acos", "Asin", "Atanh")},
    "Acosh": {"nodes": [("Exp", ("image",), 1, {}), ("Add", (0, np.float32(1.5)), 1, {}), ("Acosh", (1,), 1, {})],
              "shape": IMAGE},
    "ArgMax": case("ArgMax", axis=1, keepdims=0),
    "ArgMin": case("ArgMin", axis=2),
    "ArgMax last": case("ArgMax", axis=3, select_last_index=1),
    "ReduceMean": case("ReduceMean", axes=[2, 3], opset=13),
    "ReduceMean 18": case("ReduceMean", ints(-1, 2), keepdims=0, opset=18),
    "ReduceMean all": case("ReduceMean", opset=18),
    "ReduceSum": case("ReduceSum", ints(1)),
    "ReduceSum none": case("ReduceSum", noop_with_empty_axes=1),
    "ReduceMax": case("ReduceMax", axes=[2], opset=13),
    "ReduceMin": case("ReduceMin", axes=[1], keepdims=0, opset=13),
    "ReduceL1": case("ReduceL1", axes=[1], opset=13),
    "ReduceL2": case("ReduceL2", axes=[2], opset=13),
    "ReduceSumSquare": case("ReduceSumSquare", axes=[1, 2], opset=13),
    "ReduceLogSumExp": case("ReduceLogSumExp", axes=[1], opset=13),
    "ReduceLogSum": {"nodes": [("Exp", ("image",), 1, {}), ("ReduceLogSum", (0,), 1, {"axes": [1]})], "shape": IMAGE,
                     "opset": 13},
    "Gemm": case("Gemm", weight(4, 6), weight(4), transB=1, alpha=0.5, beta=2.0, shape=VECTOR),
    "Gemm transposed": case("Gemm", weight(3, 4), transA=1, shape=VECTOR),
    "MatMul": {"nodes": [("MatMul", ("image", weight(7, 5)), 1, {}), POOL], "shape": IMAGE},
    "MatMul vector": {"nodes": [("MatMul", ("image", weight(7)), 1, {}), ("Unsqueeze", (0, ints(3)), 1, {}),
                                ("MaxPool", (1,), 1, {"kernel_shape": [1, 1]})], "shape": IMAGE},
    "MatMul batch": {"nodes": [("Transpose", ("image",), 1, {"perm": [0, 1, 3, 2]}), ("MatMul", ("image", 0), 1, {}),
                               ("MaxPool", (1,), 1, {"kernel_shape": [1, 1]})], "shape": IMAGE},
    "Einsum": case("Einsum", weight(3, 5), equation="bcxy,cd->bdxy"),
    "Einsum of other axes": case("Einsum", weight(1, 6, 7, 5), equation="b...y,...yc->b...c"),
    "Flatten": {"nodes": [("Flatten", ("image",), 1, {}), ("Gemm", (0, weight(126, 4)), 1, {})], "shape": IMAGE},
    "Flatten axis": case("Flatten", axis=2),
    "Reshape": case("Reshape", ints(0, -1, 7)),
    "Reshape parts": case("Reshape", ints(0, 3, 2, 3, 7)),
    "Transpose": case("Transpose", perm=[0, 2, 1, 3]),
    "Squeeze": {"nodes": [("ReduceSum", ("image", ints(2)), 1, {}), ("Squeeze", (0, ints(-2)), 1, {})], "shape": IMAGE},
    "Unsqueeze": case("Unsqueeze", ints(1, -1)),
    "Expand": {"nodes": [("ReduceSum", ("image", ints(1)), 1, {}), ("Expand", (0, ints(3, 6, 1)), 1, {})],
               "shape": IMAGE},
    "Tile": case("Tile", ints(1, 2, 1, 3)),
    "Cast": {"nodes": [("Cast", ("image",), 1, {"to": 7}), ("Cast", (0,), 1, {"to": 1}), ("Add", (1, "image"), 1, {})],
             "shape": IMAGE},
    "CastLike": {"nodes": [("Greater", ("image", np.float32(0)), 1, {}), ("CastLike", (0, "image"), 1, {}),
                           ("Mul", (1, "image"), 1, {})], "shape": IMAGE},
    "Dropout": case("Dropout"),
    "DepthToSpace": case("DepthToSpace", blocksize=2, shape=(2, 8, 6, 4)),
    "DepthToSpace CRD": case("DepthToSpace", blocksize=2, mode="CRD", shape=(2, 8, 6, 4)),
    "SpaceToDepth": case("SpaceToDepth", blocksize=2, shape=(2, 3, 6, 4)),
    "Gather": case("Gather", ints(2, -1, 0), axis=2),
    "Gather one": case("Gather", np.array(1), axis=1),
    "Size": {"nodes": [("Size", ("image",), 1, {}), ("Cast", (0,), 1, {"to": 1}), ("Div", ("image", 1), 1, {})],
             "shape": IMAGE},
    "Shape chain": {"nodes": [
        ("Shape", ("image",), 1, {}), ("Gather", (0, ints(2, 3)), 1, {"axis": 0}), ("Mul", (1, ints(2)), 1, {}),
        ("Slice", (0, ints(0), ints(2)), 1, {}), ("Concat", (3, 2), 1, {"axis": 0}),
        ("Resize", ("image", "", "", 4), 1, {"mode": "linear"})], "shape": IMAGE},
    "Constants": {"nodes": [
        ("Shape", ("image",), 1, {}), ("ConstantOfShape", (0,), 1, {"value": np.float32([2])}),
        ("Range", (np.float32(0), np.float32(7), np.float32(1)), 1, {}), ("Mul", (1, 2), 1, {}),
        ("ReduceProd", (0,), 1, {"keepdims": 0}), ("Cast", (4,), 1, {"to": 1}), ("Div", (3, 5), 1, {}),
        ("Add", ("image", 6), 1, {}),
    ], "shape": IMAGE},
    "Pixel shuffle 3d": {"nodes": [
        ("Reshape", ("image", ints(2, 2, 2, 2, 2, 3, 2, 4)), 1, {}),
        ("Transpose", (0,), 1, {"perm": [0, 1, 5, 2, 6, 3, 7, 4]}), ("Reshape", (1, ints(2, 2, 6, 4, 8)), 1, {}),
        ("Conv", (2, weight(3, 2, 3, 3, 3)), 1, {"pads": [1] * 6})], "shape": (2, 16, 3, 2, 4)},
    "Pixel shuffle 2d": {"nodes": [
        ("Reshape", ("image", ints(2, 2, 3, 2, 6, 4)), 1, {}), ("Transpose", (0,), 1, {"perm": [0, 3, 4, 1, 5, 2]}),
        ("Reshape", (1, ints(2, 2, 12, 12)), 1, {})], "shape": (2, 12, 6, 4)},
    "Group norm of PyTorch": {"nodes": [
        ("Reshape", ("image", ints(0, 2, -1)), 1, {}), ("InstanceNormalization", (0, np.ones(2, np.float32),
                                                                             np.zeros(2, np.float32)), 1, {}),
        ("Shape", ("image",), 1, {}), ("Reshape", (1, 2), 1, {}), ("Mul", (3, weight(4, 1, 1)), 1, {}),
        ("Add", (4, weight(4, 1, 1)), 1, {})], "shape": FOUR},
}
# fmt: on
OPSETS = (13, 17, 21)
NO_GRADIENT = {"ArgMax", "ArgMin", "ArgMax last"}


def model_of(name):
    """Returns the model of a case. An int among the inputs of a node is the number of the node that computes it."""
    spec = CASES[name]
    opset = spec.get("opset") or OPSETS[list(CASES).index(name) % len(OPSETS)]
    operators = [operator for operator, *_ in spec["nodes"]]
    needs = {"LayerNormalization": 17, "HardSwish": 14, "CastLike": 15}
    opset = max([opset, *(needs.get(each, 13) for each in operators)])
    if not spec.get("opset") and any(each.startswith("Reduce") and each != "ReduceSum" for each in operators):
        opset = 17
    build, made = Builder(opset), []
    for operator, inputs, outputs, attributes in spec["nodes"]:
        given = [made[x] if isinstance(x, int) else x for x in inputs]
        attributes = {
            key: build_tensor(value) if isinstance(value, np.ndarray) else value for key, value in attributes.items()
        }
        made.append(build(operator, *given, outputs=outputs, name=f"{operator}_{len(made)}", **attributes))
    last = made[-1] if isinstance(made[-1], list) else [made[-1]]
    return build.model({"image": (spec["shape"], "float32")}, last)


def build_tensor(value):
    from onnx import numpy_helper

    return numpy_helper.from_array(value)


@pytest.mark.mostly_slow(fast=0.05)
@pytest.mark.parametrize("layout", ["whole", "split", "in turns"])
@pytest.mark.parametrize("name", CASES)
def test_operators(name, layout, tmp_path):
    check(saved(model_of(name), tmp_path), layout, sizes={"batch": CASES[name]["shape"][0]},
          gradients=name not in NO_GRADIENT, jit="groups" in name or "depthwise" in name)  # fmt: skip


def test_every_operator_has_a_case():
    assert sorted({*OPERATORS} - {node[0] for spec in CASES.values() for node in spec["nodes"]}) == []
