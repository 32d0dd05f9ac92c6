"""The plan of a halo exchange: the steps that widen slices, with all decisions that depend on the mesh.

The way that a margin is filled depends on the neighbors' devices:

- If neighbors share a device, widened slices are gathered from the stack (`Gather`). The adjoint of this step would
  scatter, which is slow, so `narrow` plans without it.
- If every device has one slice along a dimension, the strips of both neighbors are concatenated with the slice
  (`Join`), dimension by dimension. They are cut from slices that are already widened along earlier dimensions, so
  corners are filled, too.
- If some neighbors share a device and others do not, slices are padded (`Pad`), and the voxels of neighbors are written
  into the margins in place (`Write`).
- If the processors take turns, a turn reads the strips that contain its windows from the stored slices of other turns
  (`Read`).
- Margins that reach past the next slice are exchanged one at a time, with one message per pair of devices (`Far`).

Cropped dimensions are cut first (`Crop`), so that cropped voxels are not sent. Dimensions that are only padded come
last, so that padding is not sent. Finally, each processor cuts off the voxels that none of its windows reads (`Crop`,
`Cut`).
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.halo.far import Far
from mtf_imaging.engine.meshes.halo.gathering import Gather, gathered_margins
from mtf_imaging.engine.meshes.halo.joining import Join
from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.halo.reading import Read
from mtf_imaging.engine.meshes.halo.steps import Crop, Cut, Pad, Step
from mtf_imaging.engine.meshes.halo.writing import Write
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl


@functools.lru_cache(maxsize=4096)
def plan(
    grid: ShardGrid, margins: tuple[Margin, ...], slice_shape: tuple[int, ...], itemsize: int, gathers: bool = True
) -> tuple[Step, ...]:
    """Returns the steps that widen slices by margins, in order; empty if all margins are empty.

    Args:
      grid: the division of the mesh into shards.
      margins: a `Margin` for each dimension to widen.
      slice_shape: shape of a slice, or of a widened slice.
      itemsize: bytes of an element.
      gathers: whether slices that share a device may be gathered.
    """
    removed, margins = tuple(m.removed for m in margins), tuple(m.added for m in margins)
    sizes = list(slice_shape)  # of the voxels that are sent, without padding
    for m in margins:
        sizes[m.dim] = m.size
    gathered = gathered_margins(grid, margins, sizes, itemsize) if gathers else ()

    def kind(m: Margin) -> type[Step]:
        """Returns the step that fills a margin."""
        if m.mesh_axis is None:
            return Pad
        if grid.is_in_turns(m.axis):
            return Read
        if m in gathered:
            return Gather
        if grid.mesh[m.axis] > 1 and max(m.before, m.after) > m.size:  # past the next slice
            return Far
        return Join if grid.local[m.axis] == 1 and grid.shards[m.axis] > 1 else Write

    def sent(*filled: Margin) -> tuple[Exchange, ...]:
        """Returns the exchanges that fill margins, one for each piece. All later exchanges send wider slices."""
        messages = []
        for m in filled:
            for piece in m.pieces(grid.mesh[m.axis]):
                sizes[m.dim] = piece.voxels
                messages.append(Exchange("halo", (m.axis,), math.prod(sizes) * itemsize, piece.distance))
            sizes[m.dim] = m.width if kinds[m] is Read else m.before + m.size + m.after
        return tuple(messages)

    def near(stage: Sequence[Margin]) -> Iterator[Step]:
        """Yields the steps for margins that do not reach past the next slice, or that are gathered or padded."""
        copied, written, joined, padded = (
            tuple(m for m in stage if kinds[m] is step) for step in (Gather, Write, Join, Pad)
        )
        # One padding step makes room for all margins, but joined slices are padded afterwards.
        early, late = ((), padded) if joined else (padded, ())
        if copied:
            yield Gather(copied, written + early, exchanges=sent(*copied))
        elif _widens(written + early):
            yield Pad(written + early)
        if messages := sent(*written):
            yield Write(written, early, exchanges=messages)
        for m in joined:
            if _widens([m]):
                yield Join(m, exchanges=sent(m))
        if _widens(late):
            yield Pad(late)

    kinds = {m: kind(m) for m in margins}
    steps: list[Step] = [Crop(removed)] if _widens(removed) else []
    # Strips that are stored contain neither padding nor other halos if they are cut first.
    read = [m for m in margins if kinds[m] is Read and _widens([m])]
    steps += [Read(m, exchanges=sent(m)) for m in read]
    ordered = [m for m in margins if kinds[m] is not Read]
    ordered.sort(key=lambda m: (kinds[m] is not Gather, kinds[m] is Pad))
    for is_far, group in itertools.groupby(ordered, lambda m: kinds[m] is Far):
        stage = list(group)
        if is_far:
            steps += [Far(m, exchanges=sent(m)) for m in stage]
        elif _widens(stage):
            steps += near(stage)
    for m in margins:
        if m.split is not None and m.split.needs_cut and m not in read:
            steps.append(Cut(m) if m.cut is None else Crop((m.cut,)))
    return tuple(steps)


def _widens(margins: Sequence[Margin]) -> bool:
    return any(m.before or m.after for m in margins)


def widen(mesh: ShardMeshImpl, x: LaidOutTensor, margins: Sequence[Margin], fill: float = 0) -> LaidOutTensor:
    """Widens every slice of a laid-out tensor by its margins; voxels beyond the border of the whole tensor are `fill`.

    Args:
      mesh: a `ShardMeshImpl`.
      x: a laid-out tensor.
      margins: a `Margin` for each dimension to widen.
      fill: a number.

    Returns:
      A laid-out tensor; `x` itself if all margins are empty.
    """
    for step in plan(mesh.grid, tuple(margins), tuple(x.slice_shape), x.dtype.size):
        mesh.exchanged += step.exchanges
        x = step.widen(mesh, x, fill)
    return x


def narrow(mesh: ShardMeshImpl, dx: LaidOutTensor, margins: Sequence[Margin]) -> LaidOutTensor:
    """Converts gradients of widened slices to gradients of the slices; the adjoint of `widen` for any fill."""
    for step in reversed(plan(mesh.grid, tuple(margins), tuple(dx.slice_shape), dx.dtype.size, gathers=False)):
        mesh.exchanged += [exchange.reversed() for exchange in step.exchanges]
        dx = step.narrow(mesh, dx)
    return dx


def exchanges(
    mesh: ShardMeshImpl, margins: Sequence[Margin], slice_shape: Sequence[int], itemsize: int, adjoint: bool = False
) -> list[Exchange]:
    """Returns the exchanges of `widen`, or of its adjoint `narrow`: one `Exchange` for each piece of a margin.

    Args:
      mesh: a `ShardMeshImpl`.
      margins: a `Margin` for each dimension to widen.
      slice_shape: shape of a slice.
      itemsize: bytes of an element.
      adjoint: whether to return the exchanges of `narrow`.
    """
    steps = plan(mesh.grid, tuple(margins), tuple(slice_shape), itemsize, gathers=not adjoint)
    sent = [exchange for step in steps for exchange in step.exchanges]
    return [exchange.reversed() for exchange in sent] if adjoint else sent
