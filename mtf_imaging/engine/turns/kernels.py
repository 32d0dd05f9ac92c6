"""What the kernels of TensorFlow's operations do."""

# Operations whose results have the same bytes as their first input.
ALIASES = frozenset(("EnsureShape", "ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"))
# Operations that compute each element from the elements in the same place of their inputs, which may be broadcast.
ELEMENTWISE = frozenset(
    (
        *("Abs", "Add", "AddN", "AddV2", "BiasAdd", "BitwiseXor", "Cast", "Cos", "Div", "DivNoNan", "Elu", "EluGrad"),
        *("Equal", "Erf", "Exp", "Greater", "GreaterEqual", "Identity", "LeakyRelu", "LeakyReluGrad", "Less"),
        *("LessEqual", "Log", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg"),
        *("NotEqual", "OnesLike", "Pow", "RealDiv", "Reciprocal", "Relu", "Relu6", "Relu6Grad", "ReluGrad"),
        *("RightShift", "Rsqrt", "SelectV2", "Selu", "SeluGrad", "Sigmoid", "SigmoidGrad", "Sign", "Sin", "Softplus"),
        *("Sqrt", "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad", "Xdivy", "ZerosLike"),
    )
)
# Operations that take as long as a copy of their results.
CHEAP = frozenset(
    (
        *(*ALIASES, *ELEMENTWISE),
        *("BroadcastTo", "ConcatV2", "Fill", "GatherV2", "MirrorPad", "OneHot", "Pack", "Pad", "PadV2", "Select"),
        *("Slice", "Split", "SplitV", "StridedSlice", "TensorListStack", "Tile", "Transpose", "Unpack"),
    )
)
# Operations that may write their result over an input of the same size.
OVERWRITING = (ELEMENTWISE | {"Softmax"}) - {"Cast", "SelectV2"}
