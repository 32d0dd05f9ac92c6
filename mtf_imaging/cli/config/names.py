"""Registers the classes that gin files use; the classes themselves do not import gin."""

import gin

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.kinds.objects.augmentation import ObjectAugmentation
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.photos.augmentation import PhotoAugmentation
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.training import optimizers

for _class in (
    Augmentation,
    ObjectAugmentation,
    Objects,
    PhotoAugmentation,
    Photos,
    *(getattr(optimizers, name) for name in optimizers.__all__ if name != "Optimizer"),
):
    gin.external_configurable(_class, module="mtf_imaging")

# The other attributes of records come from `job`, `train` and the setup.
records = gin.external_configurable(Records, module="mtf_imaging", allowlist=["intensities"])
