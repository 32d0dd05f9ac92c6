"""A training step on several hosts, and the bytes that the planner expects between them."""

import dataclasses

from benchmarks.partition.networks import Step


@dataclasses.dataclass(frozen=True)
class Setup:
    """A training step, its layout and its hosts.

    Attributes:
      title: the dimensions that the layout splits, in words.
      mesh_shape: the mesh, with one processor for each process.
      layout: the rules of the layout.
      num_hosts: number of hosts.
      processes: number of processes on each host.
      network: a key of `benchmarks.partition.networks.NETWORKS`.
      size: voxels along x, y and z.
      batch: number of volumes.
      base_filters: filters of the first block.
      depth: number of resolutions.
    """

    title: str
    mesh_shape: str
    layout: str
    num_hosts: int = 2
    processes: int = 1
    network: str = "N1"
    size: int = 64
    batch: int = 1
    base_filters: int = 8
    depth: int = 3

    @property
    def step(self) -> Step:
        """The training step."""
        return Step(self.network, (self.size,) * 3, self.batch, self.base_filters, self.depth)


@dataclasses.dataclass(frozen=True)
class Expected:
    """The planner's expectation for a step.

    Attributes:
      nbytes: bytes of tensors that the busiest host sends or receives.
      exchanges: exchanges of a process, one after the other.
    """

    nbytes: float
    exchanges: int


def expect(setup: Setup) -> Expected:
    """Returns the expectation of `mtf-imaging explain --num_hosts` for a setup."""
    from benchmarks.partition.ours import describe_step
    from mtf_imaging.engine.layout import Layout
    from mtf_imaging.jobs.steps.costs import explain_step
    from mtf_imaging.planner.cost.step_time import loads, traffic_totals

    layout = Layout.parse(setup.mesh_shape, setup.layout)
    plan = explain_step(describe_step(setup.step), layout, num_hosts=setup.num_hosts).plan
    _, between = traffic_totals(plan)
    return Expected(between, sum(load.messages * times for load, times in loads(plan)))
