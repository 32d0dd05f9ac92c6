"""Reads cases, converts them to records and augments training samples."""

from mtf_imaging.files.log_lines import import_quietly

_MODULES = {
    "LITS": "mtf_imaging.data.description.description",
    "Augmentation": "mtf_imaging.data.augmentation",
    "Description": "mtf_imaging.data.description.description",
    "ObjectAugmentation": "mtf_imaging.kinds.objects.data_set",
    "ObjectDescription": "mtf_imaging.kinds.objects.description",
    "Objects": "mtf_imaging.kinds.objects.data_set",
    "PhotoAugmentation": "mtf_imaging.kinds.photos.data_set",
    "PhotoDescription": "mtf_imaging.kinds.photos.description",
    "Photos": "mtf_imaging.kinds.photos.data_set",
    "Records": "mtf_imaging.data.records.data_set",
}

__all__ = [*_MODULES]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_quietly(_MODULES[name]), name)
