"""Batches of images of kinds whose networks compute several images together."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mtf_imaging.files.reading import errors_named

T = TypeVar("T")
# Maps images [images, height, width, channels] to the prediction for each of them.
BatchNetwork = Callable[[np.ndarray], Sequence[Any]]


def batches(images: Sequence[T], size: int, key: Callable[[T], Any] = lambda image: None) -> Iterator[list[T]]:
    """Yields images in batches, in their order.

    Args:
      images: the images.
      size: the number of images in a batch.
      key: a function of an image; the images of a batch have equal results. If it raises an error for an image, the
        image is alone in its batch.
    """
    batch: list[T] = []
    last: Any = None
    for image in images:
        try:
            own = key(image)
        except Exception:  # reading the image raises it again, with the handling of errors about single images
            own = object()
        if batch and (len(batch) == size or own != last):
            yield batch
            batch = []
        batch.append(image)
        last = own
    if batch:
        yield batch


def named(files: Sequence[Path], number: int) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which errors name one of several files; without files, they stay as they are."""
    return errors_named(files[number]) if files else contextlib.nullcontext()
