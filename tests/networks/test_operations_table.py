"""The page of operations agrees with the graphs of the cases, and every operation has a case."""

from mtf_imaging.networks.onnx.registry import OPERATORS
from mtf_imaging.networks.operations.registry import OPERATIONS
from tests.networks import comparing, operations_table

# Other names of operations in the table, which only graphs of earlier releases of TensorFlow contain; operations of
# random layers; and those that tracing with sizes replaces by constants, which files contain.
ELSEWHERE = {
    *("BatchNormInTraining", "OnesLike", "Shape", "Size", "StatelessRandomGetKeyCounter", "StatelessRandomNormalV2"),
    *("StatelessRandomUniformV2", "ZerosLike"),
    *("Add", "AvgPool3D", "BatchMatMul", "BatchMatMulV3", "BiasAddV1", "Div", "FusedBatchNorm", "FusedBatchNormV2"),
    *("PlaceholderWithDefault", "PreventGradient", "RandomStandardNormal", "RandomUniform", "Rank", "Snapshot"),
    *("StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg", "StatelessRandomNormal", "StatelessRandomUniform"),
}


def test_the_page_and_the_cases():
    comparing.use_dtype("float32")
    table = operations_table.rows()
    missing = {*OPERATIONS} - ELSEWHERE - {name for row in table.values() for name in row.found}
    assert not missing, missing
    missing = {*OPERATORS} - operations_table.CONSTANTS - {name for row in table.values() for name in row.onnx}
    assert not missing, missing
    assert operations_table.PAGE.read_text() == operations_table.page(table), (
        "Fix: python -m tests.networks.operations_table"
    )
