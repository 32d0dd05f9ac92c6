"""All bad inputs, in the order of the page."""

from benchmarks.reliability.inputs import (
    dataset_json,
    flags,
    headers,
    names,
    object_folders,
    photo_folders,
    records,
    runs,
    series,
    values,
    zarrs,
)
from benchmarks.reliability.inputs.bad_input import BadInput

_TABLES = (headers, values, names, dataset_json, series, zarrs, photo_folders, object_folders, records, runs, flags)
INPUTS: tuple[BadInput, ...] = tuple(given for table in _TABLES for given in table.INPUTS)
