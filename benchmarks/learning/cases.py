"""The training and scoring cases of contenders, and voxel sizes that headers lack."""

from pathlib import Path

FOLDS = 3
TEST, ON_FOLDS = "test", "folds"


def split(cases: Path, on: str, seed: int, output_dir: Path) -> Path:
    """Returns a folder with the cases of one run in train/ and test/.

    Args:
      cases: folder of all cases, in train/ and test/.
      on: "test" to score on the cases in test/, or "folds" to score on a third of the cases in train/, which the run
        does not train on. Settings are chosen on folds, so that test/ still consists of new cases.
      seed: the run's seed; three seeds in a row are scored on each case once.
      output_dir: folder for links to the cases of each fold.
    """
    if on == TEST:
        return cases
    fold = output_dir / f"fold{seed % FOLDS}"
    for path in sorted((cases / "train").glob("*.nii*")):
        name = "test" if number(path) % FOLDS == seed % FOLDS else "train"
        link = fold / name / path.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(path)
    return fold


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
