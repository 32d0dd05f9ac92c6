"""The volume with its slices, and one slice with its halo, for a layout picture, with their texts."""

import math

from mtf_imaging.engine.layout import uneven_splits
from mtf_imaging.files.figures import PolyCollection, Rectangle
from mtf_imaging.planner.render.picture_boxes import Box, Cuts, Paper, visible_halo, widened

# Colors of Okabe and Ito's palette, which is safe for color blindness; the volume is gray and edges are dark.
_SLICE, _HALO, _EDGE, _TEXT = "#56b4e9", "#e69f00", "#24405c", "#222222"
_VOLUME = {"front": "#eef1f5", "top": "#dfe4ea", "side": "#ccd3db"}
_SHADE = {"front": 1.0, "top": 0.92, "side": 0.82}
_LEAST = {"volume": 5, "slice": 8}  # minimum width of a halo in pixels
_SMALL = 8.5


def draw_volume(axes, cuts: Cuts, halo) -> None:
    """Draws the volume to scale with its cuts, and one slice with its halo."""
    width, height = axes.get_xlim()[1], axes.get_ylim()[1]
    is_cut = max(cuts.parts.values()) > 1
    paper = Paper(cuts.volume, width - 130, height - 120)
    at = (78, 64 + (height - 120 - paper.size[1]) / 2)
    drawn = cuts.coarser(paper.voxels(_LEAST["volume"]))
    some = " (some cuts omitted)" if drawn.parts != cuts.parts else ""
    _heading(axes, f"The image and its slices{some}" if is_cut else "The image")
    line = min(1.4, 0.08 * paper.scale * min(high for _, high in drawn.box(dict.fromkeys(drawn.parts, 0)).values()))
    whole = {dim: (0, size) for dim, size in cuts.volume}
    for name, corners in paper.faces(whole).items():
        _fill(axes, [corners], at, _VOLUME[name], "none", 0)
    slices = [corners for place in drawn.surface_places() for corners in paper.outer_faces(drawn.box(place)).values()]
    _fill(axes, slices, at, "none", _EDGE, line)
    if is_cut:
        mine = cuts.box(cuts.shown_place())
        wide = widened(mine, visible_halo(halo, mine, paper.voxels(_LEAST["volume"]), cuts.volume), cuts.volume)
        _draw_faces(axes, paper.outer_faces(wide), at, _HALO, None)
        thickness = min(high - low for low, high in mine.values()) * paper.scale
        _draw_faces(axes, paper.outer_faces(mine), at, _SLICE, _EDGE, min(line, 0.1 * thickness))
    _fill(axes, paper.faces(whole).values(), at, "none", _EDGE, 1.4)
    _number_slices(axes, cuts, paper, at)
    _name_edges(axes, cuts, paper, at)


def draw_slice(axes, cuts: Cuts, halo) -> None:
    """Draws one slice within its transparent halo, and states the voxels of both."""
    width, height = axes.get_xlim()[1], axes.get_ylim()[1]
    _heading(axes, "One slice and its halo")
    mine = cuts.box(cuts.shown_place())
    room = (width - 60, height - 200)
    least = Paper(tuple((dim, high - low) for dim, (low, high) in mine.items()), *room).voxels(_LEAST["slice"])
    outer, inner, is_wider, is_thicker = {}, {}, False, False
    around = widened(mine, halo, cuts.volume)
    for dim, (low, high) in mine.items():
        true = low - around[dim][0], high - low, around[dim][1] - high
        before, thick, after = (max(n, times * least[dim]) if n else 0 for n, times in zip(true, (1, 2, 1)))
        is_wider |= (before, after) != (true[0], true[2])
        is_thicker |= thick > true[1]
        inner[dim], outer[dim] = (before, before + thick), (0, before + thick + after)
    paper = Paper(tuple((dim, high) for dim, (_, high) in outer.items()), *room)
    at = (20, 160 + (room[1] - paper.size[1]) / 2)
    _draw_faces(axes, paper.faces(outer), at, _HALO, "#8a5a00")
    _draw_faces(axes, paper.faces(inner), at, _SLICE, _EDGE)
    names, more = dict(cuts.layout.rules), " (not to scale)"
    who = ", ".join(f"{names[dim]} {i}" for dim, i in cuts.shown_place().items() if cuts.parts[dim] > 1)
    _draw_key(axes, 122, _SLICE, [f"slice of {who}{more if is_thicker else ''}:", describe_size(mine)])
    lines = describe_halo(mine, halo, cuts.volume)
    title = f"its halo, from its neighbors{more if is_wider else ''}:" if lines else "no convolution needs a halo"
    _draw_key(axes, 76, _HALO, [title, *lines])


def _heading(axes, text):
    axes.text(16, axes.get_ylim()[1] - 6, text, fontsize=10.5, fontweight="bold", va="top", color=_TEXT)


def _draw_key(axes, y, color, lines):
    axes.add_patch(Rectangle((16, y - 9), 12, 12, facecolor=color, edgecolor=_EDGE, linewidth=0.8))
    axes.text(36, y + 4, "\n".join(lines), fontsize=_SMALL + 0.5, va="top", color=_TEXT, linespacing=1.4)


def _draw_faces(axes, faces, at, color, edge, line=1.0):
    for name, corners in faces.items():
        shade = tuple(int(color[i : i + 2], 16) / 255 * _SHADE[name] for i in (1, 3, 5))
        _fill(axes, [corners], at, shade, edge or "none", line)


def _fill(axes, polygons, at, color, edge, line):
    moved = [[(x + at[0], y + at[1]) for x, y in corners] for corners in polygons]
    axes.add_collection(
        PolyCollection(moved, facecolors=color, edgecolors=edge, linewidths=line, joinstyle="round", snap=False)
    )


def _number_slices(axes, cuts, paper, at):
    """Writes the coordinates of the processors on the front if there is room."""
    names, parts = dict(cuts.layout.rules), cuts.parts
    split = [dim for dim in parts if parts[dim] > 1]
    if not split:
        return
    for place in cuts.surface_places():
        face = paper.outer_faces(cuts.box(place)).get("front")
        if face is None:
            continue
        xs, ys = zip(*face)
        wide, high = max(xs) - min(xs), max(ys) - min(ys)
        lines = [f"{names[dim]} {place[dim]}" for dim in split]
        if wide < 7 * max(map(len, lines)) + 6 or high < 15 * len(lines) + 4:
            lines = [",".join(str(place[dim]) for dim in split)]
        if wide >= 7 * max(map(len, lines)) + 6 and high >= 15 * len(lines) + 2:
            x, y = (min(xs) + max(xs)) / 2 + at[0], (min(ys) + max(ys)) / 2 + at[1]
            axes.text(x, y, "\n".join(lines), ha="center", va="center", fontsize=_SMALL, color=_TEXT)


def _name_edges(axes, cuts, paper, at):
    """Writes the name, the size and the slice numbers of each dimension along its edge."""
    corners = paper.corners({dim: (0, size) for dim, size in cuts.volume})
    (_, bottom), (_, right), (_, back) = corners
    ends = [
        ((0, 0, 0), (bottom, 0, 0)),
        ((bottom, 0, 0), (bottom, right, 0)),
        ((bottom, right, 0), (bottom, right, back)),
    ]
    outward = [(-1, 0), (0, -1), (0.7, -0.7)]
    if len(cuts.volume) == 1:
        ends, outward = ends[1:2], outward[1:2]
    for (dim, size), (start, stop), (dx, dy) in zip(cuts.volume, ends, outward):
        (x0, y0), (x1, y1) = paper.point(*start), paper.point(*stop)
        n, length = cuts.parts[dim], math.hypot(x1 - x0, y1 - y0)
        angle = 90 if dx == -1 else math.degrees(math.atan2(y1 - y0, x1 - x0))
        for i in tick_places(n, length) if n > 1 else ():
            along = sum(cuts.box(dict.fromkeys(cuts.parts, 0) | {dim: i})[dim]) / 2 / size
            x, y = x0 + (x1 - x0) * along + at[0] + 6 * dx, y0 + (y1 - y0) * along + at[1] + 6 * dy
            h, v = {-1: ("right", "center"), 0: ("center", "top")}.get(dx, ("left", "top"))
            axes.text(x, y, str(i), ha=h, va=v, fontsize=_SMALL - 1, color="#555555")
        which = f"{dict(cuts.layout.rules)[dim]} 0 to {n - 1}" if n > 1 else "not split"
        away = 36 if n > 1 else 18
        x, y = (x0 + x1) / 2 + at[0] + away * dx, (y0 + y1) / 2 + at[1] + away * dy
        text = f"{dim}: {size} voxels, {which}"
        half, back = 2.8 * len(text), math.radians(angle)
        # Keeps the names of short edges within the picture.
        if dx > 0 and 2 * half > length:
            text, half = text.replace(", ", "\n"), half / 2
            x, y = x + 7 * dx, y + 7 * dy
        if dx == 0:
            x = max(x, 16 + half)
        elif dx > 0:
            moved = max(0, 10 + half * math.sin(back) - y) / math.sin(back)
            x, y = x + moved * math.cos(back), y + moved * math.sin(back)
        axes.text(x, y, text, rotation=angle, ha="center", va="center", fontsize=_SMALL + 0.5, color=_TEXT)


def describe_processors(cuts: Cuts) -> str:
    """Describes the mesh and the mesh dimensions that do not split the volume.

    >>> from mtf_imaging.engine.layout import Layout
    >>> describe_processors(Cuts((("x", 8),), Layout.parse("rows:2,cores:2", "x:rows,batch:cores")))
    "4 processors, rows 2 x cores 2. 'batch' is split over cores: 2 sets of these slices, each with its own images."
    >>> describe_processors(Cuts((("x", 33),), Layout.parse("rows:16", "x:rows")))
    '16 processors, rows 16. x: 33 over rows:16 -> slices of 3, 5 of 16 empty.'
    """
    sizes, rules = dict(cuts.layout.mesh_shape), dict(cuts.layout.rules)
    number = math.prod(sizes.values())
    mesh = " x ".join(f"{name} {size}" for name, size in sizes.items())
    sentences = ["1 processor." if number == 1 else f"{number:,} processors, {mesh}."]
    for dim, onto in rules.items():
        if dim in cuts.parts or sizes[onto] == 1:
            continue
        if dim == "batch":
            sentences.append(
                f"'batch' is split over {onto}: {sizes[onto]} sets of these slices, each with its own images."
            )
        else:
            sentences.append(f"'{dim}' is split over {onto}: {sizes[onto]} processors share each of these slices.")
    for name, size in sizes.items():
        if size > 1 and name not in rules.values():
            sentences.append(f"No rule uses {name}: {size} processors repeat the same work.")
    sentences += [f"{split}." for split in uneven_splits(cuts.layout, [cuts.volume])]
    return " ".join(sentences)


def describe_size(box: Box) -> str:
    """Describes the number of voxels along each dimension.

    >>> describe_size({"x": (4, 8), "y": (0, 6)})
    'x 4, y 6 voxels'
    """
    return ", ".join(f"{dim} {high - low:g}" for dim, (low, high) in box.items()) + " voxels"


def describe_halo(box: Box, halo: dict[str, tuple[int, int]], volume: tuple) -> list[str]:
    """Describes the halo of a slice, one line per dimension with a halo.

    >>> describe_halo({"x": (0, 4), "y": (0, 6)}, {"x": (1, 1)}, (("x", 8), ("y", 6)))
    ['x: 0 before, 1 after']
    """
    around = widened(box, halo, volume)
    sides = {dim: (box[dim][0] - low, high - box[dim][1]) for dim, (low, high) in around.items()}
    return [f"{dim}: {before:g} before, {after:g} after" for dim, (before, after) in sides.items() if before or after]


def tick_places(parts: int, pixels: float) -> list[int]:
    """Returns the slices that get a number: all if there is room, otherwise some, including the first and the last.

    >>> tick_places(4, 400), tick_places(128, 400)
    ([0, 1, 2, 3], [0, 32, 64, 96, 127])
    """
    if pixels / parts >= 16:
        return list(range(parts))
    step = 2 ** math.ceil(math.log2(parts * 34 / pixels))
    step = max(step, 2 ** math.floor(math.log2(max(parts // 4, 1))))
    return [*range(0, parts - step // 2, step), parts - 1]
