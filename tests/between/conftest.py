"""Groups of processes, one at a time, for all tests of this folder."""

import pytest

from tests.between.group import Starter


class _Groups:
    """The group of the last test; the next test uses it again if it has the wanted number of processes."""

    def __init__(self, starter):
        self._starter, self._group = starter, None

    def get(self, num):
        """Returns a group of `num` processes."""
        if self._group is None or not self._group.is_intact or len(self._group) != num:
            self.close()
            self._group = self._starter.start(num)
        return self._group

    def close(self):
        if self._group is not None and self._group.is_intact:
            self._group.close()
        self._group = None

    def check(self):
        """Checks that all processes count the same number of exchanges, without which a later test would hang."""
        if self._group is not None and self._group.is_intact:
            from tests.between import checks

            counts = self._group.run(checks.count_exchanges)
            if len({*counts}) > 1:
                self.close()
            assert len({*counts}) <= 1, f"the processes reserved different instance keys: {counts}"


@pytest.fixture(scope="session")
def shared_groups(tmp_path_factory):
    """Starts groups of processes."""
    starter = Starter(tmp_path_factory.mktemp("between"))
    groups = _Groups(starter)
    yield groups
    groups.close()
    starter.close()


@pytest.fixture
def groups(shared_groups):
    """The groups of processes; after each test, all processes of the group must have the same keys."""
    yield shared_groups
    shared_groups.check()
