"""The submission format of the LiTS challenge: uncompressed `test-segmentation-N.nii` files in one zip."""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from mtf_imaging.errors import DataError

NUM_TEST_CASES = 70
_TEST_VOLUME = re.compile(r"test-volume-(0|[1-9]\d*)\.nii(\.gz)?")


def submission_names(folder: Path, volumes: Iterable[Path]) -> list[str]:
    """Returns the file names for segmentations of test volumes.

    >>> submission_names(Path("test"), [Path("test/test-volume-3.nii.gz"), Path("test/test-volume-12.nii")])
    ['test-segmentation-3.nii', 'test-segmentation-12.nii']

    Args:
      folder: the folder of the volumes, for messages.
      volumes: the paths of the volumes.

    Returns:
      The names, in the same order.

    Raises:
      DataError: a file does not have the name of a test case. The challenge scores files by their number, so a wrong
        number would be scored against another case.
    """
    names = []
    for volume in volumes:
        match = _TEST_VOLUME.fullmatch(volume.name)
        if not match or int(match[1]) >= NUM_TEST_CASES:
            raise DataError(
                f"{volume}: is not a test case of the challenge. Test cases are named test-volume-N.nii or "
                f"test-volume-N.nii.gz, N = 0..{NUM_TEST_CASES - 1}. Fix: name a folder with only test cases instead "
                f"of {folder}, or predict without submission.",
                settings=["submission"],
            )
        names.append(f"test-segmentation-{match[1]}.nii")
    return names


def how_to_submit(outputs: Sequence[Path]) -> str:
    """Returns instructions for submitting segmentations, with a list of missing test cases.

    Args:
      outputs: the paths of the segmentations, all in one folder.
    """
    folder = outputs[0].parent
    there = {output.name for output in outputs}
    missing = [str(n) for n in range(NUM_TEST_CASES) if f"test-segmentation-{n}.nii" not in there]
    lines = [f"{len(outputs)} segmentations in {folder}"]
    if missing:
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        lines[0] += f"; the challenge has {NUM_TEST_CASES} test cases, missing: {shown}"
    quoted = shlex.quote(str(folder))
    return "\n".join(
        [
            *lines,
            "To submit them, zip the files without their folder:",
            f"  python3 -m zipfile -c submission.zip {quoted}/test-segmentation-*.nii",
        ]
    )
