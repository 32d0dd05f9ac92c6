"""Lists the images in a folder and reports broken links."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from mtf_imaging.data.listing.dicom_files import dicom_files
from mtf_imaging.data.listing.foreign_formats import foreign_files, how_to_convert, skipped_text
from mtf_imaging.data.listing.image_formats import ImageFormat, is_itk, is_zarr
from mtf_imaging.data.listing.itk_headers import read_itk_header
from mtf_imaging.data.listing.names import check_names
from mtf_imaging.errors import DataError
from mtf_imaging.files.partial import is_partial
from mtf_imaging.files.provenance.digests import Stamp, digest
from mtf_imaging.files.reading import access_named, check_fetched
from mtf_imaging.files.text_file import check_regular

_log = logging.getLogger(__name__)


def files_of_image(path: Path) -> list[Path]:
    """Returns the files of an image, sorted by path.

    These are the file itself and its file of voxels, which a NRRD or MetaImage header may name whatever its ending; the
    DICOM files of a series; or all files of another folder that is one image.
    """
    if path.is_dir():
        series = [] if is_zarr(path) else dicom_files(path)
        return series or sorted(file for file in path.rglob("*") if file.is_file())
    if is_itk(path):
        return sorted({path, read_itk_header(path).data})
    return [path]


def image_digest(path: Path) -> str | None:
    """Returns the SHA-256 of the files of an image; None if it does not exist.

    Raises:
      DataError: a file cannot be read, or the header does not name the file of the voxels.
    """
    if not path.exists():
        return None
    files = files_of_image(path)
    for file in files:
        check_regular(file)
    return digest(path, files)


def stamps(**paths: Path | None) -> dict[str, Stamp]:
    """Returns the stamp of each image by its role; paths that are None are left out."""
    return {role: Stamp(path.name, image_digest(path)) for role, path in paths.items() if path is not None}


def image_files(
    folder: str | Path,
    image_format: ImageFormat,
    subfolders: bool = True,
    accept: Callable[[str], bool] = bool,
    needed: bool = True,
) -> list[Path]:
    """Lists the images in a folder that have the given format, sorted by path.

    Names that begin with a dot are skipped. Links to folders are followed, and each folder is read once. A folder that
    is one image (OME-Zarr or DICOM) is listed or skipped as a whole.

    Args:
      folder: the folder to search.
      image_format: the file format.
      subfolders: whether to include the files of subfolders.
      accept: a function that takes a file name and returns whether to list the file. The default accepts all names.
      needed: whether a link to a missing image is an error; otherwise it is a warning.

    Returns:
      The files, and the folders that are one image.

    Raises:
      DataError: a folder cannot be read; `needed` is set and a link points to a missing image; or the name of an image
        is not text in UTF-8.
    """

    def is_wanted(path: Path) -> bool:
        # "._NAME" is an AppleDouble file, which macOS adds to archives for every NAME.
        return image_format.stem(path) is not None and not path.name.startswith(".") and accept(path.name)

    files, dangling, visited, foreign = [], [], set(), []
    waiting = [Path(folder)]
    while waiting:
        here = waiting.pop()
        with access_named(here):
            real = here.resolve(strict=True)
            if real in visited:  # already listed through another link
                continue
            visited.add(real)
            with os.scandir(here) as entries:
                names = sorted(entry.name for entry in entries)
        foreign += [here / name for name in foreign_files(names, image_format) if accept(name)]
        for path in (here / name for name in names):
            with access_named(path):
                if path.is_symlink() and not path.exists():
                    dangling.append(path)
                elif path.is_dir():
                    if is_wanted(path):
                        files.append(path)
                    elif subfolders and not is_zarr(path) and not is_partial(path):
                        waiting.append(path)
                elif is_wanted(path):
                    check_regular(path)
                    files.append(path)
    missing = [f"{link} -> {os.readlink(link)}" for link in sorted(dangling) if is_wanted(link)]
    if missing and needed:
        for link in filter(is_wanted, dangling):
            check_fetched(link)
        what = f"{len(missing)} link(s) point to missing files: {'; '.join(missing)}"
        raise DataError(f"{what}. Fix: restore the files, or correct the links.")
    check_names(folder, (str(path.relative_to(folder)) for path in files))
    if foreign:
        fix = how_to_convert(path.name for path in foreign)
        _log.warning("%s: skipped %s. To use them, %s.", folder, skipped_text(foreign), fix)
    for link in sorted(dangling):
        if is_wanted(link) or image_format.stem(link) is None:  # a name without the ending may be a folder
            _log.warning("%s: this link points to %s, which does not exist", link, os.readlink(link))
    return sorted(files)
