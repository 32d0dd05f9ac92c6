"""The steps from images to predictions, in batches; predictions, evaluations and held-out scores share them."""

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from tqdm import tqdm

from mtf_imaging.files.case_errors import CaseFaults
from mtf_imaging.files.reading import errors_named, memory_named
from mtf_imaging.inference.network import Network, Prediction


class Keyed(Protocol):
    """An image with a key, which is unique in its folder."""

    @property
    def key(self) -> str: ...


T = TypeVar("T")
Image = TypeVar("Image", bound=Keyed)
Read = TypeVar("Read")
Result = TypeVar("Result")
Made = TypeVar("Made")
# Maps images [images, height, width, channels] to the prediction for each of them.
BatchNetwork = Callable[[np.ndarray], Sequence[Prediction]]


@dataclasses.dataclass(frozen=True)
class Steps(Generic[Image, Read, Result]):
    """The steps from an image to its prediction.

    Attributes:
      path: returns the file of an image, for messages.
      read: reads an image.
      infer: returns the prediction for each image of a batch. Its arguments are the images, and what `read` returned.
      batch_size: the maximum number of images in a batch.
      batch_key: a function of an image; the images of a batch have equal results. If it raises an error for an image,
        the image is alone in its batch.
      is_small: whether an image that was read needs so little memory that, while it is computed, a thread writes the
        images before it and reads those after it.
    """

    path: Callable[[Image], Path]
    read: Callable[[Image], Read]
    infer: Callable[[Sequence[Image], Sequence[Read]], Sequence[Result]]
    batch_size: int = 1
    batch_key: Callable[[Image], object] = lambda image: None
    is_small: Callable[[Read], bool] = lambda read: False

    def each(
        self,
        images: Mapping[int, Image],
        use: Callable[[int, Read, Result], Made],
        faults: CaseFaults | None = None,
    ) -> Iterator[Made | None]:
        """Reads and predicts images, and yields what a function makes of each prediction, in order.

        The arrays of an image are freed before the next batch is read, unless the batch is small. Only this function's
        caller computes predictions.

        Args:
          images: the images by number.
          use: a function of the number of an image, what `read` returned, and the prediction. It runs in a thread while
            small images are computed.
          faults: receives the errors of single images, for which the result is None; None raises them.
        """
        upcoming = batches([*images], self.batch_size, lambda number: self.batch_key(images[number]))

        def read_next() -> tuple[list[int], dict[int, Read]]:
            batch, read = next(upcoming, []), {}
            for number in batch:
                with self._collecting(images[number], faults):
                    read[number] = self.read(images[number])
            return batch, read

        def finish(batch: list[int], read: dict[int, Read], results: dict[int, Result]) -> Iterator[Made | None]:
            for number in batch:
                made = None
                if number in results:
                    with self._collecting(images[number], faults):
                        made = use(number, read.pop(number), results.pop(number))
                yield made

        waiting: Iterator[Made | None] = iter(())
        batch, read = read_next()
        with concurrent.futures.ThreadPoolExecutor(1, "around the network") as thread:
            while batch:
                if read and all(map(self.is_small, read.values())):
                    around = thread.submit(lambda before: ([*before], read_next()), waiting)
                    waiting = finish(batch, read, self._infer(images, read, faults))
                    made, (batch, read) = around.result()
                    yield from made
                else:
                    yield from waiting  # then it yields nothing more
                    yield from finish(batch, read, self._infer(images, read, faults))
                    batch, read = read_next()
            yield from waiting

    def _infer(
        self, images: Mapping[int, Image], read: Mapping[int, Read], faults: CaseFaults | None
    ) -> dict[int, Result]:
        """Returns the predictions by number; if a batch fails, predicts its images one by one to find the bad one."""
        if len(read) > 1 and faults is not None and not faults.at_once:
            with contextlib.suppress(Exception):
                return self._predictions(images, read)
            parts = [{number: one} for number, one in read.items()]
        else:
            parts = [{**read}] if read else []
        results: dict[int, Result] = {}
        for part in parts:
            with self._collecting(images[min(part)], faults):
                results |= self._predictions(images, part)
        return results

    def _predictions(self, images: Mapping[int, Image], read: Mapping[int, Read]) -> dict[int, Result]:
        results = self.infer([images[number] for number in read], [*read.values()])
        return dict(zip(read, results, strict=True))

    def _collecting(self, image: Image, faults: CaseFaults | None) -> contextlib.AbstractContextManager[None]:
        path = self.path(image)
        return memory_named(path) if faults is None else faults.collect(image.key, path)


def batches(images: Sequence[T], size: int, key: Callable[[T], object] = lambda image: None) -> Iterator[list[T]]:
    """Yields images in batches, in their order; see `Steps`."""
    batch: list[T] = []
    last: object = None
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


def batch_network(network: Callable[[np.ndarray], Prediction]) -> BatchNetwork:
    """Returns a network, or any other function of one image, as a function of several images."""
    if isinstance(network, Network):
        return network.predict_batch
    return lambda images: [network(image) for image in images]


def in_progress(items: Iterable[T], total: int, title: str, unit: str, progress: bool) -> Iterator[T]:
    """Yields items, and shows a progress bar on stderr."""
    yield from tqdm(items, total=total, desc=title, unit=unit, disable=not progress, dynamic_ncols=True)


def score_held_out(
    steps: Steps[Image, Read, Result],
    images: Sequence[Image],
    use: Callable[[int, Read, Result], Made | None],
    unit: str,
    progress: bool,
) -> list[Made]:
    """Predicts held-out images during training, and returns what a function makes of each prediction.

    Args:
      steps: the steps from an image to its prediction.
      images: the images.
      use: a function of the number of an image, what was read of it, and the prediction; None leaves the image out.
      unit: the noun for an image.
      progress: whether to show a progress bar.
    """
    made = steps.each(dict(enumerate(images)), use)
    options = {"leave": False, "disable": not progress, "dynamic_ncols": True}
    return [one for one in tqdm(made, total=len(images), desc="held out", unit=unit, **options) if one is not None]
