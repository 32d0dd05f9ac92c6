"""Runs tests of the installed mesh_tensorflow, `python upstream_tests.py ops_test ...`, and prints counts as JSON."""

import json
import sys
import unittest

from absl import flags

from mtf_imaging.engine import compat  # noqa: F401  patches TensorFlow

flags.FLAGS(sys.argv[:1])  # TensorFlow's test cases need parsed flags
suite = unittest.defaultTestLoader.loadTestsFromNames([f"mesh_tensorflow.{name}" for name in sys.argv[1:]])
result = unittest.TextTestRunner(stream=sys.stderr).run(suite)
broken = [str(case) for case, _ in result.failures + result.errors] + [str(case) for case in result.unexpectedSuccesses]
print(json.dumps({"ran": result.testsRun, "skipped": len(result.skipped), "broken": broken}))
