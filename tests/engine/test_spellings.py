"""Operations and layers accept the argument names of TensorFlow and of Keras."""

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging import layers, ops

SPECS = {"x": "batch:1,x:7,y:6,channels:2"}
X = np.random.default_rng(0).normal(size=(1, 7, 6, 2)).astype(np.float32)
CALLS = {
    "conv": (lambda x, **named: layers.Conv(3, **named)(x), {"kernel_size": 2, "dilation": 2, "padding": "valid"}),
    "pool": (lambda x, **named: ops.max_pool2d(x, strides=2, **named), {"ksize": 3, "padding": "SAME"}),
}
OTHERS = {"kernel_size": "ksize", "dilation": "dilations", "ksize": "pool_size"}


@pytest.mark.parametrize("call", CALLS)
def test_other_spellings_give_the_same_values(call):
    function, own = CALLS[call]
    others = {OTHERS.get(name, name): value.swapcase() if name == "padding" else value for name, value in own.items()}
    assert not {*others} <= {*own}
    expected, values = (mi.Program(lambda x, named=named: function(x, **named), SPECS)(x=X) for named in (own, others))
    np.testing.assert_array_equal(values, expected)


def test_an_argument_with_two_spellings_is_refused():
    with pytest.raises(TypeError, match="dilations and dilation are the same argument"):
        layers.Conv(3, dilation=1, dilations=1)
    with pytest.raises(TypeError, match="kernel_siz"):
        layers.Conv(3, kernel_siz=1)
