"""Networks of other libraries for the tasks of this package."""

from mtf_imaging.models.imported.network import Network

__all__ = ["Network"]
