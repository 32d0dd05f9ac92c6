"""Names in gin files of earlier versions, and what replaces them."""

import re
from typing import NamedTuple


class Rename(NamedTuple):
    """A name that has changed.

    Attributes:
      old: the name in earlier versions, such as "unet3d.Task" or "UNet3D.alpha".
      new: the name now.
      value: the new value, if it is not the old one.
    """

    old: str
    new: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.old} is now {self.new}" + (f" = {self.value}" if self.value else "")


RENAMES = (
    Rename("unet3d.Task", "unet3d.LiverTumorSegmentation"),
    Rename("UNet3D.keep_prob", "UNet3D.dropout_rate", "1 - keep_prob (the fraction that dropout sets to zero)"),
    Rename("train.best", "train.monitor"),
    Rename("UNet3D.alpha", "UNet3D.negative_slope"),
    Rename("Augmentation.scale", "Augmentation.contrast"),
    Rename("Augmentation.shift", "Augmentation.brightness"),
)


def find_renamed(text: str) -> list[Rename]:
    """Returns the changed names that gin bindings contain.

    >>> [str(one) for one in find_renamed("job.task = @unet3d.Task()")]
    ['unet3d.Task is now unet3d.LiverTumorSegmentation']
    """
    return [rename for rename in RENAMES if _pattern(rename.old).search(text)]


def _pattern(name: str) -> re.Pattern:
    """Matches a name in a binding, and within a reference; gin lets the modules of a class be left out."""
    first, last = name.split(".")
    if last[0].isupper():  # a module and a class
        return re.compile(rf"(?<![\w.])(?:{first}\.)?{last}(?=[.(]|$)")
    return re.compile(rf"(?<!\w){first}\.{last}\b")
