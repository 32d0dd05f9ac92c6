"""The table of the kinds of data, and messages about folders of another kind. Does not import TensorFlow or NumPy."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.errors import DataError
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.kinds.arrays.kind import ArrayKind
from mtf_imaging.kinds.facts import ARRAYS, VOLUMES, Facts
from mtf_imaging.kinds.kind import Kind
from mtf_imaging.kinds.objects.kind import ObjectKind
from mtf_imaging.kinds.photos.kind import PhotoKind
from mtf_imaging.kinds.predicted import PredictedImages
from mtf_imaging.kinds.volumes.kind import VolumeKind
from mtf_imaging.settings.refused import S, check_taken, not_taken, with_added
from mtf_imaging.settings.setting import Settings

if TYPE_CHECKING:
    from mtf_imaging.kinds.image_settings import Inference

# In the order in which folders and data sets are recognized.
KINDS: dict[str, Kind] = {kind.name: kind for kind in (VolumeKind(), ObjectKind(), PhotoKind(), ArrayKind())}


def kind_of_data_set(data_set: object) -> Kind:
    """Returns the kind of images in a data set."""
    return next(kind for kind in KINDS.values() if kind.has_data_set(data_set))


def read_facts(model_dir: str | Path) -> Facts | None:
    """Returns the facts of a run; None if its folder lacks the file.

    Raises:
      DataError: the file is damaged.
    """
    path = Path(model_dir) / FACTS
    if not path.is_file():
        return None
    stored = read_object(path, "delete it, then train again")
    try:
        fields = {name: value for name, value in stored.items() if value is not None}
        kind = next((name for name in KINDS if name in fields), VOLUMES if "spacing" in fields else ARRAYS)
        if kind in fields:
            fields["description"] = fields.pop(kind)
        return Facts(kind, **fields)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: this file is damaged: {error}. Fix: delete it, then train again.") from error


def kind_of_facts(facts: Facts | None) -> Kind:
    """Returns the kind of data of a run, which is volumes if there are no facts."""
    return KINDS[VOLUMES if facts is None else facts.kind]


def check_settings(own: Settings, kind: Kind) -> None:
    """Raises ConfigError if a kind does not take a setting of a job; see `check_taken`."""
    check_taken(own, kind, KINDS.values())


def settings_not_taken(kind: Kind) -> dict[str, str]:
    """Returns {setting that a kind does not take: the kinds that do}."""
    return not_taken(kind, KINDS.values())


def with_kinds(owner: type[S]) -> type[S]:
    """Returns the settings of `evaluate` or `predict` with those that kinds add; see `with_added`."""
    return with_added(owner, KINDS.values())


def open_subject(
    run: str | Path, settings: "Inference", input_path: str | Path | None = None
) -> PredictedImages[Any, Any, Any]:
    """Returns the images that a trained network predicts, with the settings of a job.

    Args:
      run: the folder of the run.
      settings: the settings.
      input_path: the images to predict; None to evaluate images.

    Raises:
      ConfigError: a setting has no effect on these images.
      DataError: the file of facts of the run is damaged.
    """
    facts = read_facts(run)
    images = kind_of_facts(facts).predicted(Path(run), facts, settings, input_path)
    check_settings(settings, KINDS[images.kind])
    return images


def detect_kind(path: str | os.PathLike[str] | None) -> Kind | None:
    """Returns the kind of the images that a path holds; None if it is not clear."""
    if path is None or not Path(path).exists():
        return None
    return next((kind for kind in KINDS.values() if kind.holds(Path(path))), None)


def check_volumes(path: str | Path, fix: str, *settings: str) -> None:
    """Checks that a path does not hold other images where volumes are needed.

    Args:
      path: a file or folder. It may be missing, which other functions report.
      fix: what to do instead, a sentence without "Fix:". `{kind}`, `{data_set}` and `{part}` are replaced by the kind
        of the images, their data set, and what such a folder names its parts.
      *settings: names of the keyword arguments in the fix.

    Raises:
      DataError: it holds photos, or images with objects.
    """
    kind = detect_kind(path)
    if kind is not None and kind.name != VOLUMES:
        text = fix.format(kind=kind.images, data_set=kind.data_set, part=kind.part)
        raise DataError(f"{path}: holds {kind.title}, but volumes are needed here. Fix: {text}", settings)


def check_no_volumes(path: str | Path, setting: str, needed: Kind) -> None:
    """Checks that a path does not hold volumes where other images are needed.

    Args:
      path: a file or folder.
      setting: the keyword argument of the path.
      needed: the kind of images that the run needs.

    Raises:
      DataError: it holds volumes.
    """
    if Path(path).exists() and KINDS[VOLUMES].holds(Path(path)):
        own = needed.title
        raise DataError(
            f"{path}: holds volumes, but the network was trained on {own}. Fix: give {own} as {setting}, or the "
            "folder of a run on volumes as model_dir.",
            [setting, "model_dir"],
        )


@contextlib.contextmanager
def explained(path: str | os.PathLike[str] | None, needed: Kind, *settings: str) -> Iterator[None]:
    """Explains errors about a path that holds another kind of images than a run needs.

    The files of different kinds may have the same formats, so other functions cannot tell what is wrong.

    Args:
      path: a file or folder.
      needed: the kind of images that the run needs.
      *settings: the keyword argument of the path, and "model_dir" or "data", which determines the kind.
    """
    try:
        yield
    except DataError:
        kind = detect_kind(path)
        if path is None or kind in (None, needed) or needed.holds(Path(path), need_labels=True):
            raise
        assert kind is not None
        why, fix = f"{needed.title} are needed here", f"the folder of a run on {kind.title} as model_dir"
        if "data" in settings:
            why = f"the data set is of {needed.title}"
            fix = (
                "convert the volumes to records" if kind.name == VOLUMES else f"choose {kind.data_set} as the data set"
            )
        raise DataError(
            f"{path}: holds {kind.title}, but {why}. Fix: give {needed.title} as {settings[0]}, or {fix}.", settings
        ) from None


@contextlib.contextmanager
def reading(path: str | Path, name: str, setting: str) -> Iterator[None]:
    """Explains errors about a path that holds another kind of images than a network was trained on.

    Args:
      path: a file or folder.
      name: the name of the kind that the network was trained on.
      setting: the keyword argument of the path.
    """
    kind = KINDS[name]
    if kind.has_splits:
        check_no_volumes(path, setting, kind)
    with explained(path, kind, setting, "model_dir"):
        yield
