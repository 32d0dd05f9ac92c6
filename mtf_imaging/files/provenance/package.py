"""The version and the commit of this package."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from mtf_imaging import __version__
from mtf_imaging.files.provenance.commit import MODIFIED, read_commit

NAME = "mtf_imaging"
_SHORT = 9  # digits of a commit in texts


@dataclasses.dataclass(frozen=True)
class Package:
    """A version of this package.

    Attributes:
      version: the version.
      commit: the commit, as returned by `read_commit`; None if it is unknown.
    """

    version: str
    commit: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return {"name": NAME, "version": self.version, "commit": self.commit}

    @property
    def release(self) -> str:
        """The version and the commit.

        >>> Package("0.1.0", "33b0040c1e2d3f4a").release
        '0.1.0+g33b0040c1'
        """
        return self.text.removeprefix(f"{NAME} ")

    @property
    def text(self) -> str:
        """The name, the version and the commit.

        >>> Package("0.1.0", "33b0040c1e2d3f4a").text, Package("0.1.0").text
        ('mtf_imaging 0.1.0+g33b0040c1', 'mtf_imaging 0.1.0')
        >>> Package("0.1.0", "33b0040c1e2d3f4a-dirty").text
        'mtf_imaging 0.1.0+g33b0040c1.dirty'
        """
        if self.commit is None:
            return f"{NAME} {self.version}"
        end = MODIFIED.replace("-", ".") if self.commit.endswith(MODIFIED) else ""
        return f"{NAME} {self.version}+g{self.commit[:_SHORT]}{end}"


@functools.cache
def this_package() -> Package:
    """Returns the version and the commit of the running package."""
    return Package(__version__, read_commit(Path(__file__).parents[3]))
