"""Names in gin files for earlier versions, and the names that replace them."""

import re
from typing import NamedTuple


class Rename(NamedTuple):
    """A renamed parameter or class.

    Attributes:
      old: the name in earlier versions, such as "unet3d.Task" or "UNet3D.alpha".
      new: the current name.
      value: the current value, if it differs from the old one.
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
    """Returns the renamed parameters and classes in the text of a gin file.

    >>> [str(one) for one in find_renamed("job.task = @unet3d.Task()")]
    ['unet3d.Task is now unet3d.LiverTumorSegmentation']
    """
    return [rename for rename in RENAMES if _pattern(rename.old).search(text)]


def _pattern(name: str) -> re.Pattern:
    """Returns a pattern for a name in bindings and references, where gin allows omitting the module."""
    first, last = name.split(".")
    if last[0].isupper():  # a module and a class
        return re.compile(rf"(?<![\w.])(?:{first}\.)?{last}(?=[.(]|$)")
    return re.compile(rf"(?<!\w){first}\.{last}\b")
