"""Functions that all processes of a group call to segment and score cases; also for a process that runs alone."""

import dataclasses

import mtf_imaging as mi
from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.sampling.buckets import parse_any_sampling
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.evaluation.evaluate import cases_to_evaluate, evaluate
from mtf_imaging.evaluation.held_out import HeldOutRecords
from mtf_imaging.evaluation.segment.cleanup import AS_FOUND, Cleanup
from mtf_imaging.evaluation.segment.ensemble import over_networks
from mtf_imaging.evaluation.segment.flips import over_flips
from mtf_imaging.evaluation.segment.predict import predict_cases, run_network
from mtf_imaging.layout import Layout
from mtf_imaging.meshes import group as groups
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.prediction import predictor_of
from mtf_imaging.training.slices import NetworkBySize


@dataclasses.dataclass(frozen=True)
class Setup:
    """How cases are segmented.

    Attributes:
      resolution, spacing: the grid of the network, or its grids.
      flips: the axes to flip.
      networks: the number of networks of the ensemble.
      cleanup: whether to apply the rules of livers.
    """

    resolution: str
    spacing: str | None = None
    flips: tuple[str, ...] = ()
    networks: int = 1
    cleanup: bool = False

    @property
    def sampling(self):
        return parse_any_sampling(self.resolution, self.spacing)

    def network(self, mesh_shape, layout):
        """Returns networks with random weights, which do not depend on the layout."""
        task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm="instance"))
        options = {"task": task, "dtype": "float64", "layout": Layout.parse(mesh_shape, layout)}
        networks = []
        for seed in range(self.networks):
            inputs = task.inputs(1, self.sampling.grids[0], dtype="float64", labels=False)
            weights = mi.Program(task.predict, inputs, seed=seed, may_repeat=True)
            network = NetworkBySize(lambda sizes, weights=weights: predictor_of(weights, sizes=sizes, **options))
            networks.append(over_flips(network, self.flips))
        return over_networks(networks)


def segmented(setup, cases, output, mesh_shape="", layout=""):
    """Writes the segmentations of a folder of cases; process 0 writes."""
    network, sampling = setup.network(mesh_shape, layout), setup.sampling
    if groups.current().is_first:
        rules = Cleanup(True, True) if setup.cleanup else AS_FOUND
        predict_cases(cases, output, sampling, network, cleanup=rules, progress=False)
    else:
        run_network(cases_to_evaluate(cases, output), sampling, network)


def evaluated(setup, cases, output, mesh_shape="", layout=""):
    """Evaluates a folder of cases; process 0 scores and writes."""
    network, sampling = setup.network(mesh_shape, layout), setup.sampling
    if groups.current().is_first:
        evaluate(cases, output, sampling, network, num_pictures=1, progress=False)
    else:
        run_network(cases_to_evaluate(cases, output), sampling, network)


def held_out(setup, records, mesh_shape="", layout=""):
    """Returns the scores of held-out records, and their pictures."""
    sampling = setup.sampling
    evaluation = HeldOutRecords(spacing=format_spacing(sampling.spacing) or None, progress=False, description=LITS)
    sizes = sampling.grids[0] if len(sampling.grids) == 1 else None
    return evaluation.open(records, sizes)(setup.network(mesh_shape, layout))
