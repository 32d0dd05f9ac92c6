"""Faults of the reader of OME-Zarr images and records."""

from tests.mutants.mutant import mutants

_ARRAYS = "tests/data/test_zarr_arrays.py"
_HOSTILE = "tests/data/test_hostile_zarr.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/data/formats/ome_zarr/codecs.py",
        f"{_ARRAYS} {_HOSTILE}",
        ("    if stated != size:", "    if stated > size:"),
        ("if len(data) < _BLOSC_HEADER or stored != len(data):", "if len(data) < _BLOSC_HEADER:"),
        ("    if len(result) > size:", "    if len(result) > 2 * size:"),
        ("if not is_complete or len(result) < size:", "if len(result) < size:"),
        ("tuple(np.argsort(self.order).tolist())", "self.order"),
        ("        for _ in range(after):", "        for _ in range(before):"),
        ("(256 if length == 2 else 0)", "0"),
    ),
    *mutants(
        "mtf_imaging/data/formats/ome_zarr/array_layout.py",
        _HOSTILE,
        ("plain not in [*COMPRESSORS]", "False"),
        ("min(*shape, *chunk, *shard) < 1", "min(*shape, *chunk, *shard) < 0"),
        ("max(_MAX_PADDED_BYTES, array_size)", "_MAX_CHUNK_BYTES"),
    ),
    *mutants(
        "mtf_imaging/data/formats/ome_zarr/array_layout.py",
        _ARRAYS,
        ("found == (value or 0)", "True"),
    ),
    *mutants(
        "mtf_imaging/data/formats/ome_zarr/stored_array.py",
        _ARRAYS,
        ("if start == num_bytes == _ABSENT:", "if False:"),
        ("file.seek(0 if layout.shards.index_first else size - length)", "file.seek(size - length)"),
        ("if prefix and parts.pop(0) != prefix:", "if prefix and parts[0] != prefix:"),
    ),
    *mutants(
        "mtf_imaging/data/formats/ome_zarr/image.py",
        _HOSTILE,
        ("if os.path.commonpath([root, folder]) != root:", "if False:"),
        ('{".", ".."} & {*name.split("/")}', '{"."} & {*name.split("/")}'),
    ),
    *mutants(
        "mtf_imaging/data/formats/ome_zarr/multiscale.py",
        _HOSTILE,
        ("if not found.has_directions and min(", "if False and min("),
        ("mm = sign * (axis.mm or 1.0) if self.has_size else sign", "mm = sign * (axis.mm or 1.0)"),
    ),
    *mutants(
        "mtf_imaging/data/records/chunks.py",
        "tests/data/test_hostile_records.py",
        ('if name.startswith("/") or ".." in name.split("/"):', 'if name.startswith("/"):'),
        ("data = self._folder.read(name, self._codec.largest)", "data = self._folder.read(name)"),
    ),
    *mutants(
        "mtf_imaging/data/records/manifest.py",
        "tests/data/test_records.py tests/data/test_pipeline.py match_the_manifest or usable or another_resolution",
        ("if record.facts.key != key:", "if False:"),
        ("if record.facts.source != self.sources[key].digest:", "if False:"),
        (
            "StoredRecord(record_path(data_dir, key), self.case_sampling(key))",
            "StoredRecord(record_path(data_dir, key))",
        ),
        ("if version == FORMAT:", "if version <= FORMAT:"),
    ),
    *mutants(
        "mtf_imaging/data/cases/cases.py",
        "tests/data/test_records.py another_run",
        ("for path in (*self.channels, self.labels) if", "for path in self.channels if"),
    ),
]
