"""The folder of a run: one writer, and the facts that its data decided, which later jobs read."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files import lock
from mtf_imaging.files.atomic import is_partial, write_bytes
from mtf_imaging.files.run_folder import CONFIG, FACTS


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the data of a run decided, as `run.json` in its folder keeps it.

    Attributes:
      resolution: voxels of the images that the network takes, as `data.sampling.grid.format_grid` writes them.
      spacing: the voxel size in mm, as `data.sampling.sampling.format_spacing` writes it; "" for none; None for a data
        set other than records.
      fold_digest: a short name of the cases of the fold; None without a fold.
    """

    resolution: str
    spacing: str | None = None
    fold_digest: str | None = None

    def save(self, model_dir: str | Path) -> None:
        """Writes the file."""
        text = json.dumps(dataclasses.asdict(self), indent=1) + "\n"
        write_bytes(Path(model_dir) / FACTS, text.encode())


def read_facts(model_dir: str | Path) -> Facts | None:
    """Returns the facts of a run; None if its folder holds none.

    Raises:
      DataError: the file is damaged.
    """
    path = Path(model_dir) / FACTS
    if not path.is_file():
        return None
    try:
        return Facts(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: this file is damaged: {error}. Fix: delete it, and train once more.") from error


@contextlib.contextmanager
def held(model_dir: str | Path) -> Iterator[None]:
    """Holds the folder of a run for this process within the block, so that no other trains in it.

    Raises:
      ConfigError: it is not the folder of a run, or another process trains in it.
    """
    check(model_dir)
    with lock.held(model_dir, "model_dir", needed=True):
        yield


def check(model_dir: str | Path) -> None:
    """Checks that a folder is missing, empty, or that of an earlier run.

    Raises:
      ConfigError: it holds something else.
    """
    path = Path(model_dir)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path}: is a file. Fix: give train a folder of its own as model_dir.", ["model_dir"])
    others = sorted(p.name for p in path.glob("*") if not is_partial(p) and p.name != lock.NAME)
    if others and not {CONFIG, FACTS} & {*others}:
        raise ConfigError(
            f"{path}: holds {others[0]} and neither {CONFIG} nor {FACTS}, so it is not the folder of a run. "
            "Fix: give train a folder of its own as model_dir.",
            ["model_dir"],
        )
