"""The training and scoring cases of runs, with repaired headers."""

from pathlib import Path

from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable, read_spacing_table
from mtf_imaging.files.atomic import write_bytes
from tests.data.reading import read_labels, read_volume

FOLDS = 3
HELD_OUT, ON_FOLDS = "held_out", "folds"
WIDE = 300  # the first case of wide/


def prepare(cases: Path, on: str, seed: int, output_dir: Path) -> Path:
    """Returns a folder with the cases of one run in train/ and test/; it is made once.

    Files whose headers lack the affine are repaired, because programs that use a plain NIfTI reader would misread them.

    Args:
      cases: folder of all cases, in train/, test/ and wide/.
      on: "held_out" to score on the cases in test/ and wide/, or "folds" to score on a third of the cases in train/,
        which the run does not train on. Settings are chosen on folds.
      seed: the run's seed; three seeds in a row are scored on each training case once.
      output_dir: folder for the folders of cases.
    """
    fold = seed % FOLDS
    folder = output_dir / "cases" / (on if on == HELD_OUT else f"fold{fold}")
    if folder.exists():
        return folder
    known, sizes = NO_TABLE, lost_sizes(cases)
    if sizes:
        write_bytes(output_dir / "spacing.csv", sizes.encode())
        known = read_spacing_table(output_dir / "spacing.csv")
    partial = folder.with_name(f"partial-{folder.name}")
    for path in sorted(cases.glob("*/volume-*.nii*")):
        if on == HELD_OUT:
            part = "train" if path.parent.name == "train" else "test"
        elif path.parent.name == "train":
            part = "test" if number(path) % FOLDS == fold else "train"
        else:
            continue
        (partial / part).mkdir(parents=True, exist_ok=True)
        _add(path, partial / part, known)
    partial.rename(folder)
    return folder


def number(path: Path) -> int:
    """Returns the N of volume-N.nii.gz or segmentation-N.nii.gz."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


def lost_sizes(cases: Path) -> str | None:
    """Returns a table that gives cases without a voxel size the size of the others; None if all have one."""
    import nibabel
    import numpy as np

    lost, sizes = [], []
    for path in sorted(cases.glob("*/volume-*"), key=number):
        header = nibabel.load(path)
        if np.array_equal(header.affine, np.eye(4)):
            lost.append(number(path))
        else:
            sizes.append(header.header.get_zooms()[:3])
    x, y, z = np.median(sizes, axis=0)
    return "case,x,y,z\n" + "".join(f"{key},{x:g},{y:g},{z:g}\n" for key in lost) if lost else None


def _add(path: Path, folder: Path, known: SpacingTable) -> None:
    """Adds a volume and its segmentation to a folder: as links, or as repaired files if the header lacks the affine."""
    import nibabel
    import numpy as np

    mask = path.with_name(path.name.replace("volume", "segmentation"))
    if known.lookup(path) is None:
        for file in (path, mask):
            (folder / file.name).symlink_to(file)
        return
    volume = read_volume(path, known)
    affine = np.diag([*volume.geometry.spacing, 1])
    for file, voxels in ((path, volume.hu), (mask, read_labels(mask, volume))):
        nibabel.save(nibabel.Nifti1Image(voxels, affine), folder / file.name)
