"""Overlays: the choice of slices, their orientation, and the position of the outlines."""

import io
import re

import nibabel
import numpy as np
import pytest
from PIL import Image

from mtf_imaging.evaluation.report.outline import outline
from mtf_imaging.evaluation.volume_report.overlay import MARGIN_MM, make_overlays
from mtf_imaging.evaluation.volume_report.pictures import position_text
from mtf_imaging.evaluation.volume_report.planes import PLANES, find_focus
from tests.data.oriented import store_nifti
from tests.data.reading import read_segmentation
from tests.evaluation.oracle import array_source

SHAPE, SPACING, ORIGIN = (60, 50, 24), (0.7, 0.7, 5.0), (-20.0, 30.0, -40.0)
AFFINE = nibabel.affines.from_matvec(np.diag(SPACING), ORIGIN)
# Boxes along x, y, z; the lesion lies to the right of, in front of and above the middle of the liver.
LIVER = (slice(24, 52), slice(12, 40), slice(6, 18))
LESION = (slice(44, 50), slice(30, 37), slice(13, 16))


def labels_of(*boxes):
    labels = np.zeros(SHAPE, np.uint8)
    for label, box in enumerate(boxes, start=1):
        labels[box] = label
    return labels


def corners(path):
    """Returns the points `[n, 2]` of closed lines in half voxels; understands the commands M, l, h, v and z."""
    points, here = [], None
    for command, numbers in re.findall(r"([Mlhvz])([^Mlhvz]*)", path):
        values = [int(n) for n in re.findall(r"-?\d+", numbers)]
        if command in "hv":
            values = [n for value in values for n in ((value, 0) if command == "h" else (0, value))]
        for step in zip(values[::2], values[1::2], strict=True):
            here = np.array(step) if command == "M" else here + step
            points.append(here)
    return np.array(points)


def edges_in_mm(view, kind):
    """Returns the left, right, top and bottom of an outline in mm from the top left corner of the picture."""
    points = corners(view.outlines[kind]) / (2 * np.array(view.voxels)) * view.mm
    return points[:, 0].min(), points[:, 0].max(), points[:, 1].min(), points[:, 1].max()


def expected_edges(plane, box, shown):
    """Returns the left, right, top and bottom of a box in mm; axes increase to the left and upward in pictures."""
    (_, high_left), (low_left, from_left), (_, high_up), (low_up, from_up) = (
        (shown[plane.left].start, shown[plane.left].stop),
        (box[plane.left].start, box[plane.left].stop),
        (shown[plane.up].start, shown[plane.up].stop),
        (box[plane.up].start, box[plane.up].stop),
    )
    left, up = SPACING[plane.left], SPACING[plane.up]
    return (
        (high_left - from_left) * left,
        (high_left - low_left) * left,
        (high_up - from_up) * up,
        (high_up - low_up) * up,
    )


def shown_box(box):
    margins = [int(np.ceil(MARGIN_MM / mm)) for mm in SPACING]
    return [slice(max(0, at.start - m), min(n, at.stop + m)) for at, m, n in zip(box, margins, SHAPE, strict=True)]


def test_outlines_lie_on_the_edges_of_voxels():
    mask = np.zeros((6, 9), bool)
    mask[2:4, 3:8] = True
    points = corners(outline(mask))
    assert (points.min(0).tolist(), points.max(0).tolist()) == ([6, 4], [16, 8])
    mask[:] = True
    points = corners(outline(mask))
    assert (points.min(0).tolist(), points.max(0).tolist()) == ([0, 0], [18, 12])
    assert outline(mask & False) == ""


@pytest.mark.parametrize("seed", range(5))
def test_an_outline_has_the_area_of_its_mask(seed):
    """The shoelace formula gives the area of marching squares, which change each corner by an eighth of a voxel."""
    mask = np.random.default_rng(seed).random((12, 15)) < 0.5
    area = 0.0
    for part in outline(mask).split("M")[1:]:
        points = corners(f"M{part}") / 2
        x, y = points.T
        area += (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    padded = np.pad(mask, 1).astype(int)
    corner_sums = sum(padded[i : i + 13, j : j + 16] for i in (0, 1) for j in (0, 1))
    diagonal = (corner_sums == 2) & (padded[:-1, :-1] == padded[1:, 1:])
    weights = np.array([0, 1 / 8, 1 / 2, 7 / 8, 1])
    least = weights[corner_sums][~diagonal].sum() + diagonal.sum() / 4
    assert least <= abs(area) <= least + diagonal.sum() / 2  # the outline may join diagonal neighbors


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "SAL", "PIR"])
def test_outlines_do_not_depend_on_the_stored_orientation(tmp_path, codes):
    reference, prediction = labels_of(LIVER, LESION), labels_of(LIVER)
    store_nifti(tmp_path / "r.nii", reference, codes, AFFINE)
    segmentation = read_segmentation(tmp_path / "r.nii")
    overlays = make_overlays(None, segmentation.labels, prediction, segmentation.geometry.canonical_affine)
    assert overlays.what == "the largest lesion of the reference"
    box = shown_box(LIVER)
    for view, plane in zip(overlays.views, PLANES, strict=True):
        assert view.plane == plane
        size = [(box[axis].stop - box[axis].start) * SPACING[axis] for axis in (plane.left, plane.up)]
        assert view.mm == pytest.approx(size)
        assert edges_in_mm(view, ("reference", "lesion")) == pytest.approx(expected_edges(plane, LESION, box))
        for who in ("reference", "prediction"):
            assert edges_in_mm(view, (who, "liver")) == pytest.approx(expected_edges(plane, LIVER, box))
        assert ("prediction", "lesion") not in view.outlines
        # The expected position follows from the affine alone.
        middle = (LESION[plane.across].start + LESION[plane.across].stop - 1) / 2
        in_mm = ORIGIN[plane.across] + middle * SPACING[plane.across]
        assert view.position == pytest.approx(in_mm, abs=0.51 * SPACING[plane.across])
        assert view.of == SHAPE[plane.across]
        assert abs(view.number - 1 - middle) <= 0.5


def test_the_patients_right_is_on_the_left_and_the_front_and_the_head_on_top():
    """The lesion lies to the right of, in front of and above the middle of the liver, in the pictures as well."""
    reference = labels_of(LIVER, LESION)
    views = {view.plane.name: view for view in make_overlays(None, reference, reference, AFFINE).views}
    for name, letters, left, high in (
        ("axial", "RLAP", True, True),
        ("coronal", "RLSI", True, True),
        ("sagittal", "APSI", True, True),
    ):
        view = views[name]
        assert view.plane.letters == letters
        x0, x1, y0, y1 = edges_in_mm(view, ("reference", "lesion"))
        lx0, lx1, ly0, ly1 = edges_in_mm(view, ("reference", "liver"))
        assert ((x0 + x1 < lx0 + lx1), (y0 + y1 < ly0 + ly1)) == (left, high)


def test_positions_follow_the_conventions_of_radiology():
    reference = labels_of(LIVER, LESION)
    axial, coronal, sagittal = make_overlays(None, reference, reference, AFFINE).views
    assert position_text(axial) == "S 30.0 mm, slice 15 of 24 from the feet"
    assert position_text(coronal) == "A 53.1 mm, slice 34 of 50 from the back"
    shifted = AFFINE - [[0, 0, 0, 50], [0] * 4, [0] * 4, [0] * 4]
    sagittal = make_overlays(None, reference, reference, shifted).views[2]
    assert position_text(sagittal).startswith("L 37.8 mm, slice 47 of 60 from the left")


def test_the_ct_is_aligned_with_the_outlines():
    reference = labels_of(LIVER, LESION)
    hu = np.array([-1000, 40, 2000], np.int16)[reference]
    for view in make_overlays(array_source(hu), reference, reference, AFFINE).views:
        image = Image.open(io.BytesIO(view.image))
        assert image.format == "JPEG"
        assert image.size == view.voxels
        bright = np.argwhere(np.asarray(image) > 200)[:, ::-1]
        points = corners(view.outlines["reference", "lesion"]) / 2
        np.testing.assert_array_equal(bright.min(0), points.min(0))
        np.testing.assert_array_equal(bright.max(0) + 1, points.max(0))


@pytest.mark.parametrize(
    ("reference", "prediction", "what", "inside"),
    [
        (
            labels_of(LIVER),
            labels_of(LIVER, LESION),
            "the largest predicted lesion; the reference has no lesion",
            LESION,
        ),
        (labels_of(LIVER), labels_of(LIVER), "the middle of the liver; there is no lesion", LIVER),
        (labels_of(LIVER), labels_of(), "the middle of the liver; there is no lesion", LIVER),
        (labels_of(), labels_of(LIVER), "the middle of the predicted liver; the reference is empty", LIVER),
        (labels_of(), labels_of(), "the middle of the volume; both segmentations are empty", None),
        (
            labels_of((LIVER[0], LIVER[1], slice(9, 10))),
            labels_of(),
            "the middle of the liver; there is no lesion",
            (LIVER[0], LIVER[1], slice(9, 10)),
        ),
    ],
    ids=["no lesion in the reference", "no lesion", "empty prediction", "empty reference", "both empty", "one slice"],
)
def test_cases_without_lesions_or_liver(reference, prediction, what, inside):
    overlays = make_overlays(array_source(np.zeros(SHAPE, np.int16)), reference, prediction, AFFINE)
    assert overlays.what == what
    point = find_focus(reference, prediction).point
    if inside is None:
        assert point == tuple(n // 2 for n in SHAPE)
        assert all(not view.outlines for view in overlays.views)
        assert overlays.views[0].voxels == SHAPE[:2]
        return
    assert all(at.start <= index < at.stop for index, at in zip(point, inside, strict=True))
    for view in overlays.views:
        there = {who for who, labels in (("reference", reference), ("prediction", prediction)) if labels.any()}
        assert {who for who, name in view.outlines if name == "liver"} == there
        (who,) = there if len(there) == 1 else ["reference"]
        liver = tuple(slice(a.min(), a.max() + 1) for a in np.nonzero(reference if who == "reference" else prediction))
        edges = expected_edges(view.plane, liver, shown_box(liver))
        assert edges_in_mm(view, (who, "liver")) == pytest.approx(edges)


def test_slices_go_through_a_voxel_of_a_bent_lesion():
    labels = labels_of(LIVER)
    labels[26:50, 14, 10] = labels[26:50, 38, 10] = labels[26, 14:39, 10] = 2
    point = find_focus(labels, labels).point
    assert labels[point] == 2
    voxels = np.argwhere(labels == 2)
    nearest = ((voxels - voxels.mean(0)) ** 2).sum(1).min()
    assert ((np.array(point) - voxels.mean(0)) ** 2).sum() == pytest.approx(nearest)
