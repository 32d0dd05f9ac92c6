"""Links within a host and between hosts, by hand."""

import pytest

from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.errors import ConfigError
from mtf_imaging.planner.cost.interconnect import Interconnect


def connected(mesh, devices=None, hosts=1, mesh_impl="collective"):
    number = devices or ShardGrid.make(mesh, 2**20).num_shards
    return Interconnect(ShardGrid.make(mesh, number), hosts, mesh_impl)


AFTER, BEFORE = Exchange("halo", (0,), 100, 1), Exchange("halo", (0,), 60, -1)


def test_a_device_in_the_middle_sends_both_halos():
    assert connected([4], mesh_impl="placement").load([AFTER, BEFORE]) == (160, 0, 2)
    assert connected([2], mesh_impl="placement").load([AFTER, BEFORE]) == (100, 0, 2), "each of two sends one"


def test_the_collective_mesh_swaps_halos_of_equal_size():
    assert connected([4]).load([AFTER, BEFORE]) == (200, 0, 1)
    assert connected([4]).load([AFTER]) == (200, 0, 1)


def test_halos_cross_hosts_only_at_their_border():
    """Rows 0 and 1 are in host 0. Each of its 4 columns sends one halo to host 1, and they share the network."""
    mesh = connected([4, 4], hosts=2)
    assert mesh.devices_per_host == 8
    assert mesh.load([AFTER]) == (100, 400, 1)
    along_columns = Exchange("halo", (1,), 100, 1)
    assert mesh.load([along_columns]) == (200, 0, 1), "all columns of a row are in one host"
    assert connected([4, 4], hosts=4).load([AFTER]) == (0, 800, 1), "each host has one row and two neighbors"
    assert connected([4, 4], hosts=8).load([along_columns]) == (100, 100, 1), "half a row each"


def test_a_halo_wider_than_the_slices_of_a_device_reaches_the_next_but_one():
    far = Exchange("halo", (0,), 100, 3)
    mesh = Interconnect(ShardGrid.make((8,), 4), 2, "placement")
    assert mesh.load([far]) == (0, 200, 1), "devices 0 and 1 send to devices 2 and 3"


@pytest.mark.parametrize(("hosts", "load"), [(1, (150, 0, 1)), (2, (150, 150, 1)), (4, (0, 150, 1))])
def test_a_ring_sends_through_its_slowest_link(hosts, load):
    """2 (4 - 1) / 4 of 100 bytes from each device to the next one."""
    assert connected([4], hosts=hosts).load([Exchange("sum", (0,), 100)]) == load


def test_rings_of_the_same_hosts_share_their_network():
    assert connected([2, 4], hosts=2).load([Exchange("sum", (0,), 100)]) == (0, 400, 1)
    assert connected([2, 4], hosts=2).load([Exchange("sum", (1,), 100)]) == (150, 0, 1)
    assert connected([2, 4], hosts=2).load([Exchange("sum", (0, 1), 80)]) == (140, 140, 1)


def test_placement_sums_on_the_first_device():
    mesh, total = connected([4], mesh_impl="placement"), Exchange("sum", (0,), 100)
    assert mesh.load([total], gradient=True) == (300, 0, 1)
    assert mesh.load([total]) == (600, 0, 1), "and back"
    assert connected([4], hosts=2, mesh_impl="placement").load([total], gradient=True) == (100, 200, 1)


def test_gathers_and_all_to_alls():
    mesh = connected([4], hosts=2)
    assert mesh.load([Exchange("gather", (0,), 100)]) == (100, 400, 1), "2 devices send to 2 devices of the other host"
    assert mesh.load([Exchange("all-to-all", (0,), 100)]) == (25, 100, 1)


def test_processors_of_one_device_use_no_link():
    mesh = Interconnect(ShardGrid.make((4, 2), 4))
    assert mesh.load([Exchange("halo", (1,), 100, 1), Exchange("sum", (1,), 100)]) == (0, 0, 0)
    total = Exchange("sum", (0, 1), 100)
    assert mesh.load([total], gradient=True) == (300, 0, 1), "summed within each device first"


def test_variables_come_from_all_devices():
    assert connected([8], mesh_impl="placement").variables_load(800) == (800, 0, 0)
    assert connected([8], hosts=2, mesh_impl="placement").variables_load(800) == (400, 1600, 0)


def test_transports():
    transports = [connected([4], mesh_impl=name).transport for name in ("placement", "collective")]
    assert transports == ["direct", "ring"]
    assert connected([4], devices=1, mesh_impl="stacked").transport == "in-process copies"


@pytest.mark.parametrize(("hosts", "fix"), [(3, "1, 2, 4, 8 or 16"), (32, "1, 2, 4, 8 or 16"), (0, "1, 2, 4, 8 or 16")])
def test_hosts_have_equally_many_devices(hosts, fix):
    with pytest.raises(ConfigError, match=f"num_hosts is {hosts}, which does not divide the 16 devices .* to {fix}"):
        connected([4, 4], hosts=hosts)
