"""Segmentations as the LiTS challenge takes them: `test-segmentation-N.nii`, not compressed, in one zip."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from mtf_imaging.errors import DataError

NUM_TEST_CASES = 70
_TEST_VOLUME = re.compile(r"test-volume-(0|[1-9]\d*)\.nii(\.gz)?")


def submission_names(folder: Path, volumes: Iterable[Path]) -> list[str]:
    """Names of the segmentations of test volumes.

    >>> submission_names(Path("test"), [Path("test/test-volume-3.nii.gz"), Path("test/test-volume-12.nii")])
    ['test-segmentation-3.nii', 'test-segmentation-12.nii']

    Args:
      folder: that of the volumes, for messages.
      volumes: their files.

    Returns:
      The names, in the same order.

    Raises:
      DataError: a file is not named as a test case of the challenge; sent under another's number it
        would be scored as that.
    """
    names = []
    for volume in volumes:
        match = _TEST_VOLUME.fullmatch(volume.name)
        if not match or int(match[1]) >= NUM_TEST_CASES:
            raise DataError(
                f"{volume}: is no test case of the challenge, which are test-volume-N.nii or test-volume-N.nii.gz, "
                f"N = 0..{NUM_TEST_CASES - 1}. Fix: give a folder of these alone, not {folder}, or predict without "
                "submission.",
                settings=["submission"],
            )
        names.append(f"test-segmentation-{match[1]}.nii")
    return names


def how_to_submit(outputs: list[Path]) -> str:
    """What to do with the segmentations of a submission, and which are missing.

    Args:
      outputs: the segmentations, all in one folder.
    """
    folder = outputs[0].parent
    there = {output.name for output in outputs}
    missing = [str(n) for n in range(NUM_TEST_CASES) if f"test-segmentation-{n}.nii" not in there]
    lines = [f"{len(outputs)} segmentations in {folder}"]
    if missing:
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        lines[0] += f"; the challenge has {NUM_TEST_CASES} test cases, missing are {shown}"
    quoted = shlex.quote(str(folder))
    return "\n".join(
        [
            *lines,
            "To submit them, zip the files without their folder:",
            f"  python3 -m zipfile -c submission.zip {quoted}/test-segmentation-*.nii",
        ]
    )
