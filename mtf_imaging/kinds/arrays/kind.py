"""Arrays, as a custom data set prepares them."""

from mtf_imaging.kinds.facts import ARRAYS
from mtf_imaging.kinds.kind import Kind
from mtf_imaging.settings.inference import EnsembleSetting


class ArrayKind(Kind):
    """Arrays: the images of all data sets of other classes. Only the data set recognizes their files."""

    name = title = images = ARRAYS
    data_set, part = "a custom data set", "the data set"
    settings = (EnsembleSetting,)
