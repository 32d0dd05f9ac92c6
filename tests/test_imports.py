"""Import rules: modules import only from lower layers, so that the package can be read from the bottom up."""

import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection.imports import PACKAGE, ROOT, all_imports, closure, imports_of, module_name, modules

FILES = sorted([*(ROOT / PACKAGE).rglob("*.py"), *(ROOT / "models").rglob("*.py")])

# Layers from the bottom up. A unit imports only from lower layers, which come earlier in this list.
LAYERS = [
    {"errors", "__version__"},
    {"parameters", "spelling", "spellings"},
    {"layout", "files"},
    {"processes"},
    {"compat"},
    {"reads"},
    {"meshes"},
    {"ops"},
    {"layers"},
    {"upstream"},
    {"turns"},
    {"program"},
    {"inference"},
    {"training"},
    {"networks"},
]
RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}

# The folders and modules of data/, from the bottom up.
DATA_LAYERS = [
    *("modality", "intensities", "class_frequencies"),
    *("label_survey", "pairs"),
    "elements",
    *("listing", "description", "sampling", "images", "formats", "reading", "cases"),
    *("augmentation", "records", "pixels", "phantom", "fingerprint"),
]

NEVER = {
    "data": {"cli", "models", "jobs", "planner", "training", "evaluation", "settings", "kinds"},
    "evaluation": {"cli", "models", "jobs", "planner", "kinds"},
    "kinds": {"cli", "models", "jobs", "planner"},
    "planner": {"cli", "models", "jobs", "data", "evaluation", "kinds"},
    "settings": {"cli", "models", "jobs", "evaluation", "kinds", "meshes", "program", "ops"},
    "training": {"cli", "models", "jobs", "data", "evaluation", "kinds", "planner"},
}

# The folders of kinds/, with the other kinds that they may import. Only the table of kinds imports all of them.
KINDS = {"volumes": set(), "photos": set(), "objects": set(), "arrays": {"volumes"}}


def unit_of(module: str) -> str:
    """Returns the unit that a module belongs to, such as "ops" for mtf_imaging.engine.ops.conv."""
    parts = [*module.split("."), "", ""]
    return parts[2] if parts[1] == "engine" else parts[1]


@functools.cache
def imports(path: Path) -> set[str]:
    return all_imports(module_name(path))


def present(faults: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns the modules that have faults."""
    return {module: found for module, found in faults.items() if found}


def units_imported(path: Path) -> set[str]:
    return {unit_of(name) for name in imports(path) if name.split(".")[0] == PACKAGE} - {unit_of(module_name(path))}


def test_all_forms_of_imports_are_read():
    source = "import a.b\nfrom . import c\nfrom ..d import e\ndef f():\n    from mtf_imaging.engine.ops import conv\n"
    names = imports_of(source, "mtf_imaging.cli.train")
    assert names == {"a.b", "mtf_imaging.cli.c", "mtf_imaging.d.e", "mtf_imaging.engine.ops.conv"}
    assert imports_of("from .c import d", "mtf_imaging.cli", is_package=True) == {"mtf_imaging.cli.c.d"}


def test_modules_import_only_from_lower_layers():
    upwards = {}
    for path in FILES:
        unit = unit_of(module_name(path))
        upwards[module_name(path)] = units_imported(path) & NEVER.get(unit, set())
        if unit in RANK:
            upwards[module_name(path)] |= {
                name for name in units_imported(path) if RANK.get(name, len(LAYERS)) >= RANK[unit]
            }
    assert present(upwards) == {}


def test_no_modules_import_each_other_in_a_cycle():
    """Includes imports for types and within functions, but not the names that `mi` imports on first use."""
    modules = {module_name(path): path for path in FILES}

    def module_of(name: str) -> str:
        """Returns the module of an imported name; "" for other packages."""
        return name if name in modules or not name else module_of(name.rpartition(".")[0])

    graph = {module: {module_of(name) for name in imports(path)} - {module, ""} for module, path in modules.items()}
    graph["mtf_imaging"] = set()
    graphlib.TopologicalSorter(graph).prepare()  # raises an error that names the cycle


def data_part(module: str) -> str:
    """Returns the folder or module of data/ that a module belongs to; "" for other modules and data/ itself."""
    return [*module.split("."), "", ""][2] if unit_of(module) == "data" else ""


def test_folders_of_data_import_only_from_lower_layers():
    upwards = {}
    for path in FILES:
        if part := data_part(module_name(path)):
            lower = set(DATA_LAYERS[: DATA_LAYERS.index(part)])
            upwards[module_name(path)] = {data_part(name) for name in imports(path)} - lower - {part, ""}
    assert len(upwards) > 100
    assert present(upwards) == {}


def kind_part(module: str) -> str:
    """Returns the folder or module of kinds/ that a module belongs to; "" for other modules."""
    return [*module.split("."), "", ""][2] if unit_of(module) == "kinds" else ""


def test_kinds_do_not_import_each_other():
    others = {}
    for path in FILES:
        if (part := kind_part(module_name(path))) in KINDS:
            others[module_name(path)] = ({kind_part(name) for name in imports(path)} & {*KINDS}) - KINDS[part] - {part}
    assert len(others) > 60
    assert present(others) == {}


# All that the engine and its tests may import of the repository.
ENGINE_USES = (
    *("mtf_imaging.engine", "mtf_imaging.errors", "mtf_imaging.files", "mtf_imaging.spelling"),
    *("tests.engine", "tests.conftest", "tests.importing", "tests.poison", "tests.waiting"),
    *("tests.selection", "tests.storage"),  # of conftest.py
)


@pytest.mark.parametrize("package", ["mtf_imaging.engine", "tests.engine"])
def test_the_engine_and_its_tests_stand_alone(package):
    own = [module for module in modules() if module.startswith(f"{package}.")]
    assert len(own) > 90

    def others(module: str) -> set[str]:
        names = closure(module) - {PACKAGE}
        return {name for name in names if not any(f"{name}.".startswith(f"{each}.") for each in ENGINE_USES)}

    assert present({module: others(module) for module in own}) == {}


def modules_that_import(package: str) -> set[str]:
    return {module_name(path) for path in FILES if any(name.split(".")[0] == package for name in imports(path))}


def test_only_compat_imports_mesh_tensorflow():
    assert modules_that_import("mesh_tensorflow") == {"mtf_imaging.engine.compat"}


def test_only_cli_and_models_import_gin():
    assert {unit_of(module) for module in modules_that_import("gin")} == {"cli", "models"}


def is_public(name: str) -> bool:
    """Returns whether a model may import a name: mtf_imaging (as mi), mi.parameters, other models, gin, TensorFlow."""
    return (
        name == PACKAGE
        or name.startswith(("mtf_imaging.models", "mtf_imaging.parameters"))
        or name.split(".")[0] in {"gin", "tensorflow", *sys.stdlib_module_names}
    )


def test_models_use_the_public_api_only():
    models = [path for path in FILES if path.is_relative_to(ROOT / "models")]
    assert (
        present({module_name(path): {name for name in imports(path) if not is_public(name)} for path in models}) == {}
    )


@functools.cache
def exists(module: str) -> bool:
    parts = module.split(".")
    place = ROOT.joinpath(*parts[1:] if parts[1:2] == ["models"] else parts)
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def test_every_module_that_is_imported_exists():
    """Includes imports within functions, which other tests may never execute."""
    own = {path: {name for name in imports(path) if name.split(".")[0] == PACKAGE} for path in FILES}
    missing = {
        module_name(path): {name for name in names if not (exists(name) or exists(name.rpartition(".")[0]))}
        for path, names in own.items()
    }
    assert present(missing) == {}


def test_no_file_is_too_long():
    lengths = {module_name(path): len(path.read_text().splitlines()) for path in FILES}
    assert {module: length for module, length in lengths.items() if length > 400} == {}


def test_the_gin_folder_never_shadows_gin_config():
    assert not list((ROOT / "gin").rglob("*.py"))


@pytest.mark.parametrize(
    "statement",
    [
        "import mtf_imaging",
        "import mtf_imaging as mi; mi.layout; mi.LayoutError",
        "import mtf_imaging.engine.layout.windows",
    ],
)
def test_pure_python_modules_do_not_import_tensorflow(statement):
    check = "import sys; assert not {'tensorflow', 'mesh_tensorflow', 'numpy'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", f"{statement}; {check}"], check=True)


def test_an_unknown_name_is_an_attribute_error():
    import mtf_imaging as mi

    with pytest.raises(AttributeError, match="has no attribute 'Progam'"):
        _ = mi.Progam
    assert "Program" in dir(mi)
