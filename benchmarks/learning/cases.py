"""The training and scoring cases of runs, with repaired headers."""

from pathlib import Path

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
    partial = folder.with_name(f"partial-{folder.name}")
    for path in sorted(cases.glob("*/volume-*.nii*")):
        if on == HELD_OUT:
            part = "train" if path.parent.name == "train" else "test"
        elif path.parent.name == "train":
            part = "test" if number(path) % FOLDS == fold else "train"
        else:
            continue
        (partial / part).mkdir(parents=True, exist_ok=True)
        _add(path, partial / part)
    partial.rename(folder)
    return folder


def number(path: Path) -> int:
    """Returns the N of volume-N.nii.gz or segmentation-N.nii.gz."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


def _add(path: Path, folder: Path) -> None:
    """Adds a volume and its segmentation to a folder: as links, or as repaired files."""
    import nibabel
    import numpy as np

    from mtf_imaging.data.images.spacing_table import SpacingTable
    from mtf_imaging.data.reading.images import read_labels, read_volume

    mask = path.with_name(path.name.replace("volume", "segmentation"))
    if not np.array_equal(nibabel.load(path).affine, np.eye(4)):
        for file in (path, mask):
            (folder / file.name).symlink_to(file.resolve())
        return
    others = (nibabel.load(other) for other in sorted(path.parent.glob("volume-*.nii*")))
    sizes = [other.header.get_zooms()[:3] for other in others if not np.array_equal(other.affine, np.eye(4))]
    size = tuple(float(mm) for mm in np.median(sizes, axis=0))
    volume = read_volume(path, SpacingTable({str(number(path)): size}))
    affine = np.diag([*size, 1])
    for file, voxels in ((path, volume.hu), (mask, read_labels(mask, volume))):
        nibabel.save(nibabel.Nifti1Image(voxels, affine), folder / file.name)
