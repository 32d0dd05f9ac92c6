"""Faults of the formats of images: units, shear, padding, compression and sizes."""

from tests.mutants.mutant import mutants

_UNITS = "tests/data/test_nifti_units.py"
_VALUES = "tests/data/test_dicom_values.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/data/images/geometry.py",
        _UNITS,
        ("3: 1e-3}", "3: 1e-6}"),
        ("affine[:3] *= unit_mm(header) or 1.0", "affine[:3, :3] *= unit_mm(header) or 1.0"),
    ),
    *mutants(
        "mtf_imaging/data/images/geometry.py",
        _UNITS,
        ("_TOLERANCE = 0.1", "_TOLERANCE = 0.3"),
        ("if abs(angles[worst]) > _TOLERANCE", "if angles[worst] > _TOLERANCE"),
    ),
    *mutants(
        "mtf_imaging/data/formats/nifti/header_checks.py",
        _UNITS,
        ("if not same_place(qform,", "if same_place(qform,"),
        ("qform[:3] *= unit_mm(header) or 1.0", "qform[:3] *= 1.0"),
        ("not np.isfinite(offset) or offset < 0", "offset < 0"),
    ),
    *mutants(
        "mtf_imaging/data/formats/nifti/gzip_stream.py",
        "tests/data/test_gzip_stream.py",
        ("rest.startswith(GZIP) and", "False and"),
        ("if target < self._position:", "if target <= 0:"),
        ("rest += self._file.read(1)", "rest += b''"),
    ),
    *mutants(
        "mtf_imaging/data/images/repairs.py",
        "tests/data/test_hounsfield_values.py",
        ("values >= (1 << bits) + _LOWEST_WRAPPED", "values >= (1 << bits) - _LOWEST_WRAPPED"),
        ('_warn_of_constant(path, f"{lowest:g} HU")', "pass"),
    ),
    *mutants(
        "mtf_imaging/data/formats/dicom/padding.py",
        _VALUES,
        ("number >= 1 << (bits - 1) else number", "number > 1 << (bits - 1) else number"),
        ("ends[0] < stored[0] or", "False or"),
        ("(numbers <= self.highest)", "(numbers < self.highest)"),
    ),
    *mutants(
        "mtf_imaging/data/formats/dicom/series.py",
        _VALUES,
        ("(one.scale, one.dtype, one.padding) ==", "(one.scale, one.dtype, first.padding) =="),
        ("padding_value(plane.modality)", "-1024"),
    ),
    *mutants(
        "mtf_imaging/data/formats/pillow_files.py",
        "tests/data/test_pillow_files.py",
        ("check_room(declared, pixels, size, most,", "check_room(declared, pixels, size, 1000 * most,"),
        ("min(start + rows, bottom)", "bottom"),
        ("_LargeTiff, 100_000)", "TiffImageFile, 100_000)"),
        (
            'raise UnidentifiedImageError("its first bytes are not those of a PNG, JPEG or TIFF file")',
            "opener = None, Image.open, 8 * 1032",
        ),
    ),
]
