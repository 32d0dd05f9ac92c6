"""The numbers of collectives and groups, which all processes compute separately, and which must agree."""

import itertools

import pytest
import tensorflow as tf

from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.transport.between_processes import BetweenProcesses, Keys, Numbers

MESHES = [
    sizes
    for ndims in (1, 2, 3)
    for sizes in itertools.product((1, 2, 3, 4, 8, 16, 64), repeat=ndims)
    if sizes == tuple(sorted(sizes)) or ndims < 3
]


def _transports(sizes, num, numbers, device="CPU:0"):
    grid = ShardGrid.make(sizes, num)
    return [BetweenProcesses(grid, number, device, numbers[number]) for number in range(num)]


@pytest.mark.parametrize("num", [2, 3, 8, 64])
def test_different_groups_have_different_keys_and_all_members_agree(num):
    """A key identifies its members, and the device type: TensorFlow does not allow CPUs and GPUs in one group."""
    numbers, members = [Numbers() for _ in range(num)], {}

    def add(key, group):
        assert 0 < key < 2**30
        assert members.setdefault(key, group) == group, key

    meshes = [sizes for sizes in MESHES if ShardGrid.make(sizes, num).num_shards == num]
    assert meshes
    for sizes, device in itertools.product(meshes[:12], ("CPU:0", "GPU:0")):
        transports = _transports(sizes, num, numbers, device)
        for count in range(1, len(sizes) + 1):
            for axes in itertools.combinations(range(len(sizes)), count):
                for transport in transports:
                    (own,) = transport.groups(axes)
                    add(transport.axes_key(own, axes), (device, *own))
        for first, second in itertools.combinations(range(num), 2):
            for number in (first, second):
                add(transports[number].pair_key(first, second), (device, first, second))


def test_programs_and_successive_calls_have_different_keys():
    numbers = Numbers()

    def keys(count):
        own = Keys(numbers)

        @tf.function
        def draw(turn):
            own.alternate(turn)
            return [own.next() for _ in range(count)]

        return [int(key) for turn in (0, 1) for key in draw(tf.constant(turn))]

    drawn = keys(3) + keys(200) + keys(1)
    assert len(set(drawn)) == len(drawn) == 2 * (3 + 200 + 1)


def test_a_loop_has_its_own_keys():
    numbers, seen = Numbers(), []

    @tf.function
    def draw(turn):
        own = Keys(numbers)
        own.alternate(turn)
        before = own.next()
        (within,) = tf.while_loop(lambda key: key < 0, lambda _: [own.next()], [tf.constant(-1)])
        return before, within, own.next()

    seen = [int(key) for turn in (0, 1) for key in draw(tf.constant(turn))]
    assert len(set(seen)) == 6


def test_one_process_needs_no_parity():
    (transport,) = _transports((1,), 1, [Numbers()])
    transport.begin(None)
    assert not transport.is_between_processes
    (value,) = transport.reduce([tf.constant([1.0, 2.0])], [0], "SUM")
    assert value.numpy().tolist() == [1, 2]
    assert transport.end() == []
