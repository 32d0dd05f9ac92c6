"""Compares the graphs of programs with equal slices with graphs without the masks of uneven slices."""

from unittest import mock

from mtf_imaging.engine.meshes import tails, whole

CPUS = [f"CPU:{number}" for number in range(4)]


def check_nodes(build):
    """Asserts that programs have as many nodes as without masks and cuts of tails.

    Args:
      build: a function that builds programs and returns their numbers of nodes.
    """
    num_nodes = build()
    with (
        mock.patch.object(tails, "tails_of", return_value=[]),
        mock.patch.object(tails, "resize", lambda mesh, x, sizes: x),
        mock.patch.object(whole, "_extended", lambda tensor, split, grid: tensor),
    ):
        assert build() == num_nodes
