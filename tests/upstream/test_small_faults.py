"""Small cases of mesh_tensorflow's operations that only one fault breaks; `tests/mutants` lists these faults."""

import numpy as np

import mtf_imaging as mi

mtf = mi.mtf


def test_the_loser_of_two_equal_inputs_of_a_maximum_has_no_gradient():
    x = np.array([1.0, 2.0, 2.0, 3.0])

    def fn(x, y):
        return mtf.gradients([mtf.reduce_sum(mtf.maximum(x, y))], [x, y])

    program = mi.Program(fn, {"x": ("x:4", "float64"), "y": ("x:4", "float64")}, "rows:2", "x:rows")
    dx, dy = program(x=x, y=np.array([2.0, 2.0, 1.0, 3.0]))
    np.testing.assert_array_equal(dx, [0, 1, 1, 1])
    np.testing.assert_array_equal(dy, [1, 0, 0, 0])
