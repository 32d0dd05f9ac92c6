"""Functions that all processes of a group call to segment and score cases; also for a process that runs alone."""

import contextlib
import dataclasses

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.description.dataset_json import read_description
from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.sampling import label_region, slabs
from mtf_imaging.data.sampling.buckets import parse_any_sampling
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.engine.meshes import moving
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, Cleanup
from mtf_imaging.inference.averages import ensemble, flipped
from mtf_imaging.inference.network import by_size
from mtf_imaging.inference.uncertainty import with_entropy
from mtf_imaging.inference.windows import SlidingWindow
from mtf_imaging.kinds.volumes.held_out import HeldOutRecords
from mtf_imaging.kinds.volumes.segment import labels, maps
from mtf_imaging.kinds.volumes.segment.maps import NO_MAPS
from mtf_imaging.models.unet3d import Segmentation, UNet3D
from mtf_imaging.training.prediction import NetworkBuilder
from tests.kinds.volumes import evaluate, predict_cases


@dataclasses.dataclass(frozen=True)
class Setup:
    """How cases are segmented.

    Attributes:
      resolution, spacing: the grid of the network, or its grids.
      data: the cases, "ct" or "mr".
      flips: the axes to flip.
      networks: the number of networks of the ensemble.
      cleanup: whether to apply the rules of livers.
      small: whether several processes exchange many small messages and compute many small slabs.
      window: the size of the window that slides over the grid; None to compute the whole grid at once.
    """

    resolution: str
    spacing: str | None = None
    data: str = "ct"
    flips: tuple[str, ...] = ()
    networks: int = 1
    cleanup: bool = False
    small: bool = False
    window: tuple[int, int, int] | None = None

    @property
    def sampling(self):
        return parse_any_sampling(self.resolution, self.spacing)

    def network(self, description, mesh_shape, layout, choice=NO_MAPS):
        """Returns networks with random weights, which do not depend on the layout."""
        task = Segmentation(UNet3D(base_filters=2, depth=2, convs=1, norm="instance"), labels=description)
        window = None if self.window is None else SlidingWindow(self.window)
        own = NetworkBuilder(task=task, dtype="float64", layout=Layout.parse(mesh_shape, layout), window=window)
        networks = []
        for seed in range(self.networks):
            inputs = task.inputs(1, self.sampling.grids[0], dtype="float64", labels=False)
            weights = mi.Program(task.predict, inputs, seed=seed, may_repeat=True)
            network = by_size(lambda sizes, weights=weights: own.network_of(weights, sizes))
            network = with_entropy(network, description.has_regions) if choice.uncertainty else network
            networks.append(flipped(network, ["xyz".index(axis) for axis in self.flips]))
        return ensemble(networks)

    @contextlib.contextmanager
    def slabs(self):
        """Computes small slabs within the block, if the setup is `small` and there are several processes."""
        with pytest.MonkeyPatch.context() as patch:
            if self.small and groups.current().num > 1:
                patch.setattr(slabs, "_SLAB_BYTES", 3000)
                patch.setattr(label_region, "_SLAB_BYTES", 5000)
                patch.setattr(labels, "_SLAB_VOXELS", 1200)
                patch.setattr(maps, "_SLAB_BYTES", 7000)
                patch.setattr(moving, "_MESSAGE_BYTES", 1000)
            yield


def segmented(setup, cases, output, mesh_shape="", layout="", choice=NO_MAPS):
    """Writes the segmentations of a folder of cases, and the chosen maps; process 0 writes."""
    description = read_description(cases) or LITS
    network, sampling = setup.network(description, mesh_shape, layout, choice), setup.sampling
    options = {"description": description, "maps": choice}
    with setup.slabs():
        rules = Cleanup(True, True) if setup.cleanup else AS_FOUND
        predict_cases(cases, output, sampling, network, cleanup=rules, progress=False, **options)


def evaluated(setup, cases, output, mesh_shape="", layout=""):
    """Evaluates a folder of cases; process 0 scores and writes."""
    description = read_description(cases) or LITS
    network, sampling = setup.network(description, mesh_shape, layout), setup.sampling
    with setup.slabs():
        evaluate(cases, output, sampling, network, num_pictures=1, progress=False, description=description)


def held_out(setup, records, mesh_shape="", layout=""):
    """Returns the scores of held-out records, and their pictures."""
    sampling, description = setup.sampling, open_records(records).description
    samples = Records(spacing=format_spacing(sampling.spacing) or None)
    evaluation = HeldOutRecords(samples, progress=False, description=description)
    sizes = sampling.grids[0] if len(sampling.grids) == 1 else None
    network = setup.network(description, mesh_shape, layout)
    with setup.slabs():
        return evaluation.open(records, sizes)(network)


class Squared:
    """Returns the square of the image, and the image: exact in any order."""

    def inputs(self, batch_size, sizes, *, dtype, labels):
        x, y, z = sizes
        return {"image": (f"batch:{batch_size},x:{x},y:{y},z:{z},channels:1", dtype)}

    def loss(self, image):
        return mi.mtf.reduce_mean(image), {}

    def predict(self, image):
        return mi.mtf.concat([mi.mtf.square(image), image], "channels")


class Aged:
    """Returns the image times the age, and a part of it by another name: exact in any order."""

    def inputs(self, batch_size, sizes, *, dtype, labels):
        x, y, z = sizes
        image = f"batch:{batch_size},x:{x},y:{y},z:{z},channels:1"
        return {"image": (image, dtype), "age": (f"batch:{batch_size},channels:1", dtype)}

    def loss(self, image, age):
        return mi.mtf.reduce_mean(image * age), {}

    def predict(self, image, age):
        aged = image * age
        return {"aged": aged, "both": mi.mtf.concat([aged, image], "channels")}


def slid(sizes, window, mesh_shape="", layout=""):
    """Returns the slab of the prediction that this process receives, its region, and the whole prediction."""
    task = Squared()
    weights = mi.Program(task.predict, task.inputs(1, window, dtype="float32", labels=False), may_repeat=True)
    own = NetworkBuilder(task=task, layout=Layout.parse(mesh_shape, layout), window=SlidingWindow(window))
    network = own.network_of(weights, window)
    image = np.random.default_rng(0).random((*sizes, 1)).astype(np.float32)
    slices = network.slices(sizes)
    index = slices.group.index
    with pytest.MonkeyPatch.context() as patch:
        if groups.current().num > 1:
            patch.setattr(moving, "_MESSAGE_BYTES", 500)
        return slices.predict_image(image[slices.inputs[index]]), slices.outputs[index], network(image)


def slid_with_age(sizes, window, mesh_shape="", layout=""):
    """Returns the whole prediction of a network with two inputs and two outputs, of which one input does not slide."""
    task = Aged()
    weights = mi.Program(task.predict, task.inputs(1, window, dtype="float32", labels=False), may_repeat=True)
    own = NetworkBuilder(task=task, layout=Layout.parse(mesh_shape, layout), window=SlidingWindow(window))
    image = np.random.default_rng(0).random((*sizes, 1)).astype(np.float32)
    return own.network_of(weights, window)({"image": image, "age": np.array([0.5], np.float32)})
