"""Pictures of layouts: positions of slices and halos, texts, bars, and atomic writing."""

import math

import numpy as np
import pytest
from matplotlib.image import imread

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout, parse_layout, parse_shape
from mtf_imaging.planner.render import picture, picture_volume
from mtf_imaging.planner.render.picture import memory_rows, write_picture
from mtf_imaging.planner.render.picture_boxes import Cuts, LayoutPicture, Paper, visible_halo, widened

CUBE, PLANE = "x:512,y:512,z:512", "x:512,y:384"
GIB = 2**30
MEMORY = (("weights", 60 * 2**20), ("activations", 38 * GIB))
LAYOUTS = [
    (CUBE, "", ""),
    (CUBE, "rows:2", "x:rows"),
    (CUBE, "rows:2,cols:2", "x:rows,y:cols"),
    ("x:192,y:192,z:96", "rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
    (CUBE, "rows:4,cols:4", "x:rows,y:cols"),
    (CUBE, "rows:16,cols:16,cores:2", "x:rows,y:cols,batch:cores"),
    (CUBE, "rows:8", "z:rows"),
    (CUBE, "rows:128", "x:rows"),
    (PLANE, "rows:4,cols:4,cores:2", "x:rows,y:cols,channels:cores"),
    ("x:4096", "rows:8", "x:rows"),
    ("x:512,y:32,z:16", "rows:16,cols:8", "z:rows,y:cols"),
    ("x:127,y:127,z:100", "rows:3,cols:2,planes:4", "x:rows,y:cols,z:planes"),
    ("x:33,y:20", "rows:16", "x:rows"),
    ("x:500,y:400,z:300", "rows:120,cols:2", "x:rows,z:cols"),
    ("x:9", "rows:4", "x:rows"),
]


def cuts_of(volume, mesh_shape="", layout=""):
    return Cuts(parse_shape(volume), Layout.parse(mesh_shape, layout))


def picture_of(volume, mesh_shape="", layout="", **more):
    halo = {dim: (1, 2) for dim, _ in parse_layout(layout)}
    return LayoutPicture(parse_shape(volume), Layout.parse(mesh_shape, layout), halo, **more)


def texts(drawn):
    """Returns the texts of a picture with their extents in pixels."""
    canvas = picture._canvas(drawn)
    canvas.draw()
    all_texts = [text for axes in canvas.figure.axes for text in axes.texts] + list(canvas.figure.texts)
    return {text: text.get_window_extent() for text in all_texts if text.get_text()}


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize(("volume", "mesh_shape", "layout"), LAYOUTS)
def test_every_layout_is_drawn(volume, mesh_shape, layout, tmp_path):
    path = tmp_path / "pictures/layout.png"
    for more in ({}, {"memory": MEMORY, "memory_recomputed": MEMORY, "device_memory": 24 * GIB}):
        write_picture(path, picture_of(volume, mesh_shape, layout, **more))
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 200_000
        pixels = imread(path)
        assert pixels.shape[0] == 560
        assert 500 < pixels.shape[1] < 1350
        assert 0.02 < np.mean(pixels[..., :3].min(-1) < 0.9) < 0.7  # neither blank nor full
    assert [file.name for file in path.parent.iterdir()] == ["layout.png"]


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize(("volume", "mesh_shape", "layout"), LAYOUTS)
def test_texts_are_on_the_paper_and_do_not_overlap(volume, mesh_shape, layout):
    memory = (("weights and optimizer", 340 * 2**20), ("activations at the peak", 1380 * GIB))
    drawn = picture_of(volume, mesh_shape, layout, memory=memory, memory_recomputed=memory, device_memory=24 * GIB)
    extents = texts(drawn)
    width, height = next(iter(extents)).get_figure().bbox.size
    boxes = [(text, box) for text, box in extents.items() if text.get_rotation() in (0, 90)]
    for i, (text, box) in enumerate(boxes):
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0, text.get_text()
        for other, its_box in boxes[:i]:
            assert not box.padded(-1).overlaps(its_box.padded(-1)), (text.get_text(), other.get_text())


@pytest.mark.parametrize("mesh_shape", ["rows:2,cols:4", "rows:5,cols:3", "rows:11,cols:6"])
def test_slices_equal_those_of_a_program(mesh_shape):
    volume, layout = "x:12,y:8,z:6", "x:rows,y:cols"
    program = mi.Program(lambda image: image * 2, {"image": volume}, mesh_shape, layout)
    cuts = cuts_of(volume, mesh_shape, layout)
    times_met = np.zeros([12, 8, 6], int)
    for place in cuts.places():
        box = cuts.box(place)
        start = [place[dim] * size for dim, size in zip(box, program.slice_shape("image"), strict=True)]
        assert [low for low, _ in box.values()] == start
        times_met[tuple(slice(low, high) for low, high in box.values())] += 1
    np.testing.assert_array_equal(times_met, 1)


@pytest.mark.parametrize(("volume", "mesh_shape", "layout"), LAYOUTS)
def test_the_shown_slice_is_visible(volume, mesh_shape, layout):
    cuts = cuts_of(volume, mesh_shape, layout)
    assert cuts.shown_place() in list(cuts.surface_places())
    assert Paper(cuts.volume, 400, 300).outer_faces(cuts.box(cuts.shown_place()))


def test_the_shown_slice_has_visible_neighbors_on_all_sides():
    place = cuts_of(CUBE, "rows:4,cols:4,planes:4", "x:rows,y:cols,z:planes").shown_place()
    assert place == {"x": 1, "y": 2, "z": 0}
    assert cuts_of(CUBE, "rows:8", "z:rows").shown_place()["z"] == 3


def test_halos_end_at_the_border_of_the_volume():
    volume = (("x", 8), ("y", 8))
    assert widened({"x": (0, 4), "y": (4, 8)}, {"x": (1, 2), "y": (1, 2)}, volume) == {"x": (0, 6), "y": (3, 8)}


def test_halos_are_visible_and_do_not_reach_the_border():
    volume, box = (("x", 512), ("y", 512)), {"x": (128, 256), "y": (0, 512)}
    assert visible_halo({"x": (1, 0)}, box, {"x": 8, "y": 8}, volume) == {"x": (8, 0), "y": (0, 0)}
    assert visible_halo({"x": (40, 40)}, box, {"x": 8, "y": 8}, volume)["x"] == (40, 40)
    near = {"x": (6, 256), "y": (0, 512)}  # near the border, but the halo does not reach it
    assert visible_halo({"x": (1, 1)}, near, {"x": 8, "y": 8}, volume)["x"] == (3, 8)


def test_volumes_are_drawn_to_scale():
    paper = Paper((("x", 100), ("y", 200), ("z", 50)), 400, 300)
    faces = paper.faces({"x": (0, 100), "y": (0, 200), "z": (0, 50)})
    xs, ys = zip(*(point for corners in faces.values() for point in corners))
    assert (min(xs), min(ys)) == (0, 0)
    assert (max(xs), max(ys)) == pytest.approx(paper.size)
    front = faces["front"]
    assert math.dist(front[0], front[1]) == pytest.approx(2 * math.dist(front[1], front[2]))
    assert max(paper.size[0] / 400, paper.size[1] / 300) == pytest.approx(1)


def test_the_memory_table_has_the_numbers_of_the_bars():
    rows = memory_rows(MEMORY, [("weights", 60 * 2**20), ("activations", 20 * GIB), ("halos", GIB)])
    assert rows == [
        ("weights", "60.0 MiB", "60.0 MiB"),
        ("activations", "38.0 GiB", "20.0 GiB"),
        ("halos", "0 bytes", "1.0 GiB"),
        ("total", "38.1 GiB", "21.1 GiB"),
    ]
    drawn = picture_of(CUBE, memory=MEMORY, device_memory=80 * GIB, device_name="H100")
    said = [text.get_text() for text in texts(drawn)]
    assert {"weights", "60.0 MiB", "activations", "38.0 GiB", "total", "38.1 GiB", "H100:\n80.0 GiB"} <= set(said)
    assert "recomputed" not in said


def test_bars_are_as_high_as_their_bytes():
    drawn = picture_of(CUBE, memory=MEMORY, memory_recomputed=(("activations", 19 * GIB),), device_memory=76 * GIB)
    (axes,) = [axes for axes in picture._canvas(drawn).figure.axes if any(t.get_text() == "kept" for t in axes.texts)]
    _, kept, recomputed = [patch.get_height() for patch in axes.patches if patch.get_width() > 20]
    bottom, line = axes.lines[0].get_ydata()[0], axes.lines[-1].get_ydata()[0]
    assert kept == pytest.approx(2 * recomputed)
    assert line - bottom == pytest.approx(2 * kept)


def test_texts_describe_mesh_dimensions_that_do_not_split_the_volume():
    text = picture_volume.describe_processors(cuts_of(CUBE, "rows:2,a:4,b:2,c:3", "x:rows,batch:a,channels:b"))
    assert text == (
        "48 processors, rows 2 x a 4 x b 2 x c 3. 'batch' is split over a: 4 sets of these slices, each with its own "
        "images. 'channels' is split over b: 2 processors share each of these slices. No rule uses c: 3 processors "
        "repeat the same work."
    )
    assert picture_volume.describe_processors(cuts_of(CUBE)) == "1 processor."


def test_texts_have_the_true_voxels_of_a_widened_halo():
    said = [text.get_text() for text in texts(picture_of(CUBE, "rows:4,cols:4", "x:rows,y:cols"))]
    assert "its halo, from its neighbors (not to scale):\nx: 1 before, 2 after\ny: 1 before, 2 after" in said
    assert "slice of rows 1, cols 2:\nx 128, y 128, z 512 voxels" in said


def test_ticks_have_the_first_and_the_last():
    for parts in range(1, 200):
        for pixels in (5, 90, 400):
            ticks = picture_volume.tick_places(parts, pixels)
            assert ticks[-1] == parts - 1
            assert len(ticks) * 16 <= max(pixels, 32)
            assert sorted(set(ticks)) == ticks


def test_a_failed_write_keeps_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "layout.png"
    path.write_bytes(b"older")

    def fails(canvas, file):
        file.write_bytes(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(picture.FigureCanvasAgg, "print_png", fails)
    with pytest.raises(OSError, match="no space left"):
        write_picture(path, picture_of(CUBE))
    assert path.read_bytes() == b"older"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("volume", ["", "a:2,b:2,c:2,d:2"])
def test_volumes_of_0_or_4_dimensions_are_refused(volume, tmp_path):
    with pytest.raises(mi.ShapeError, match="a picture has 1 to 3 spatial dimensions, not"):
        write_picture(tmp_path / "layout.png", picture_of(volume))
