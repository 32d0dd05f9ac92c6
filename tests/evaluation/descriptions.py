"""Descriptions of data sets that are not LiTS, for tests."""

from mtf_imaging.data.description.description import Description

ORGANS = Description(
    channels=("T1w",),
    labels={"spleen": 1, "left kidney": 2, "right kidney": 3, "cyst": 4},
    masks={"spleen": (1,), "left kidney": (2,), "right kidney": (3,), "cyst": (4,)},
    lesions=("cyst",),
)
# The regions of BraTS: 1 edema, 2 non-enhancing core, 3 enhancing tumor; 4 is not scored.
REGIONS = Description(
    channels=("FLAIR", "T1w"),
    labels={"edema": 1, "necrosis": 2, "enhancing": 3},
    masks={"whole tumor": (1, 2, 3), "core": (2, 3), "enhancing": (3,)},
    region_order=(1, 2, 3),
    ignore=4,
    lesions=("core",),
)
