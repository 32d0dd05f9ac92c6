"""Writes the Zarr chunks arrays.

Zarr itself writes in an event loop in a separate thread. That thread continues after Ctrl-C or an error, while the
folder is being deleted, and logs its unfinished tasks when the process ends. Chunks are therefore encoded and written
by threads that end before `write_chunks` returns or raises, even after Ctrl-C.
"""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numcodecs import blosc
from zarr.codecs import BloscCodec

from mtf_imaging.data.records.digesting_store import DigestingStore
from mtf_imaging.files.interrupts import deferred_interrupts

_COMPRESSOR, _LEVEL = "zstd", 5
_THREADS = 4
CODEC = BloscCodec(cname=_COMPRESSOR, clevel=_LEVEL, shuffle="shuffle")


def write_chunks(
    store: DigestingStore, name: str, chunk: Sequence[int], first: Sequence[int], values: np.ndarray
) -> None:
    """Writes whole chunks of an array, compressed with `CODEC`.

    Chunks of zeros are also written, so that a missing file is always an error.

    Args:
      store: the store of the array.
      name: path of the array in the store.
      chunk: shape of a chunk.
      first: the number of the first chunk along each axis.
      values: the values of the chunks. Partial chunks at the border are padded with zeros.
    """

    def write(at: Sequence[int]) -> None:
        if interrupts:
            return
        part = values[tuple(slice(number * size, (number + 1) * size) for number, size in zip(at, chunk, strict=True))]
        padded = np.zeros(chunk, values.dtype.newbyteorder("<"))
        padded[tuple(map(slice, part.shape))] = part
        key = "/".join(str(number + offset) for number, offset in zip(at, first, strict=True))
        store.write(f"{name}/c/{key}", blosc.compress(padded, _COMPRESSOR.encode(), _LEVEL, blosc.SHUFFLE))

    numbers = (range(-(-size // length)) for size, length in zip(values.shape, chunk, strict=True))
    # Blosc is deterministic only outside the main thread, where it does not start its own threads.
    with deferred_interrupts() as interrupts, ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(write, itertools.product(*numbers)):
            pass
