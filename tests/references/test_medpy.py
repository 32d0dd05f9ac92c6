"""Overlaps and surface distances equal those of MedPy, with the neighbors of the challenge's scorer."""

import numpy as np
import pytest
from medpy.metric import binary

from mtf_imaging.evaluation.volume_scores.overlap import overlap
from mtf_imaging.evaluation.volume_scores.surface import surface_distances
from tests.references.masks import PAIRS, SPACING

NEIGHBORS = 2  # of MedPy: voxels that share a face or an edge


@pytest.mark.parametrize("name", PAIRS)
def test_overlaps(name):
    prediction, reference = PAIRS[name]
    counts = overlap(prediction, reference)
    assert counts.dice == pytest.approx(binary.dc(prediction, reference), abs=1e-12)
    assert counts.jaccard == pytest.approx(binary.jc(prediction, reference), abs=1e-12)
    assert counts.voe == pytest.approx(1 - binary.jc(prediction, reference), abs=1e-12)
    assert counts.rvd == pytest.approx(binary.ravd(prediction, reference), abs=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_surface_distances(name):
    prediction, reference = PAIRS[name]
    ours = surface_distances(prediction, reference, SPACING)
    there, back = (
        binary.__surface_distances(*masks, SPACING, NEIGHBORS)
        for masks in ((prediction, reference), (reference, prediction))
    )
    assert ours.mssd == pytest.approx(binary.hd(prediction, reference, SPACING, NEIGHBORS), abs=1e-9)
    assert ours.hd95 == pytest.approx(max(np.percentile(there, 95), np.percentile(back, 95)), abs=1e-9)
    # Each point of both surfaces counts once.
    assert ours.assd == pytest.approx(binary.assd(prediction, reference, SPACING, NEIGHBORS), abs=1e-9)
    both = np.concatenate([there, back])
    assert ours.rmsd == pytest.approx(np.sqrt(np.square(both).mean()), abs=1e-9)
