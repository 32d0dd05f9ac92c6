"""Messages between the processes of a group."""

import numpy as np

from tests.between import checks


def check_exchange(group, messages, dtype):
    """Asserts that every message arrives at its target, and nowhere else.

    Args:
      group: the `Group`.
      messages: triples (source, target, shape).
      dtype: dtype of the messages.
    """
    for number, values in enumerate(group.run(checks.exchanged, messages, dtype)):
        assert values.keys() == {i for i, (_, target, _) in enumerate(messages) if target == number}
        for i, value in values.items():
            expected = checks.message_value(i, messages[i][2])
            np.testing.assert_array_equal(value, expected != 0 if dtype == "bool" else expected)
