"""Groups of processes, one at a time, for all tests of this folder."""

import os

import pytest

from tests.between.group import Starter


class _Groups:
    """The group of the last test; the next test uses it again if it has the wanted number of processes."""

    def __init__(self, starter):
        self._starter, self._group, self._user = starter, None, ""

    def get(self, num):
        """Returns a group of `num` processes."""
        self.check()
        if self._group is None or not self._group.is_intact or len(self._group) != num:
            self.close()
            self._group = self._starter.start(num)
        self._user = os.environ["PYTEST_CURRENT_TEST"]
        return self._group

    def close(self):
        if self._group is not None and self._group.is_intact:
            self._group.close()
        self._group = None

    def check(self):
        """Checks that all processes have reserved equally many instance keys, without which a later test would hang."""
        if self._group is not None and self._group.is_intact:
            from tests.between import checks

            counts = self._group.run(checks.count_exchanges)
            if len({*counts}) > 1:
                self.close()
            assert len({*counts}) == 1, f"after {self._user}, the processes have reserved {counts} instance keys"


@pytest.fixture(scope="session")
def groups(tmp_path_factory):
    """Starts groups of processes."""
    starter = Starter(tmp_path_factory.mktemp("between"))
    groups = _Groups(starter)
    yield groups
    try:
        groups.check()
    finally:
        groups.close()
        starter.close()
