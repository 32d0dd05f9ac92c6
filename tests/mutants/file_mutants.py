"""Faults of files and folders: leftovers of others, kills, modules of users, and links."""

from tests.mutants.mutant import mutants

KILLED = "tests/files/test_killed_writers.py"
OWN = "tests/cli/test_own_modules.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/files/partial.py",
        "tests/files/test_partial.py",
        ("match[1] == _host() and _has_ended", "_has_ended"),
        ("_start_time(pid) not in (start_time, None)", "False"),
        ("_start_time(pid) not in (start_time, None)", "_start_time(pid) != start_time"),
        ('"" if state in ("Z", "X") else fields[18]', "fields[18]"),
        ("match[4] == _REPLACED and not path.is_symlink()", "match[4] == _REPLACED"),
        ("        if os.path.lexists(path):", "        if True:", "", KILLED),
        ("            os.replace(old, unwanted)\n            remove(unwanted)", "            remove(old)"),
        ("(put_back if match[4] == _REPLACED and", "(put_back if False and", "", KILLED),
    ),
    *mutants(
        "mtf_imaging/files/output_folder.py",
        "tests/files/test_output_folder.py",
        # The final cleaning of a predictions folder.
        ("        finally:\n            for folder in folders:", "        finally:\n            for folder in []:"),
        (
            "            remove_leftovers(folder)\n        try:",
            "            remove_leftovers(folder, True)\n        try:",
        ),
        (
            "contained(output_dir, name, lock.NAME).parent",
            "Path(output_dir, name)",
            "",
            "tests/files/test_contained.py",
        ),
    ),
    *mutants(
        "mtf_imaging/training/checkpoints/files.py",
        KILLED,
        ("            _move(leftover)", "            pass"),
        ("        if (leftover / _STATE).is_file() and", "        if"),
        ("        remove(temporary)  # a link", "        pass  # a link"),
        ('    if (temporary / f"{name}.index").exists():\n', "    if True:\n"),
    ),
    *mutants(
        "mtf_imaging/files/user_modules.py",
        OWN,
        ("self._folders.get(name) or self._folders.get(_importer())", "next(iter(self._folders.values()), None)"),
        (" or self._folders.get(_importer())", ""),
        ("            self._folders[name] = folder\n        return", "            pass\n        return"),
    ),
    *mutants(
        "mtf_imaging/cli/config/own_modules.py",
        OWN,
        ("            if own and not installed:", "            if own:"),
        ("(found[0] is not None, bool(found[0] and found[0].origin))", "found[0] is not None"),
    ),
    *mutants(
        "mtf_imaging/cli/config/gin_config.py",
        OWN,
        ('if "__gin__" in text:', "if False:"),
    ),
    *mutants(
        "mtf_imaging/files/workers.py",
        "tests/files/test_workers.py safe or working_folder",
        ('    os.environ[_SAFE_PATH] = "1"\n', "    pass\n"),
    ),
    *mutants(
        "mtf_imaging/jobs/runs/folder.py",
        "tests/jobs/test_links.py",
        ("    for subfolder in subfolders:", "    for subfolder in []:"),
        ("check_no_links([*subfolders, ", "check_no_links(["),
    ),
    *mutants(
        "mtf_imaging/files/unfinished.py",
        "tests/kinds/test_unfinished.py",
        ("        if file.read(len(head)) == head:\n", "        if file.read(len(head)):\n"),
        ("        file.truncate(end)\n", ""),
    ),
    *mutants(
        "mtf_imaging/inference/sliding.py",
        "tests/kinds/test_unfinished.py",
        ("[0].stop > first) // size", "[0].start >= first) // size"),
    ),
]
