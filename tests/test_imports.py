"""Import rules: modules import only from lower layers, so that the package can be read from the bottom up."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "mtf_imaging"
FILES = sorted([*(ROOT / PACKAGE).rglob("*.py"), *(ROOT / "models").rglob("*.py")])

# Layers from the bottom up. A unit imports only from lower layers, which come earlier in this list.
LAYERS = [
    {"errors", "__version__"},
    {"spelling"},
    {"layout", "servers", "files"},
    {"slurm"},
    {"processes"},
    {"heartbeats"},
    {"peers"},
    {"compat"},
    {"meshes"},
    {"ops"},
    {"upstream"},
    {"program"},
    {"training"},
]
RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}

# The folders and modules of data/, from the bottom up.
DATA_LAYERS = [
    *("intensity", "intensities", "modality", "network_input", "statistics"),
    *("listing", "description", "sampling", "images", "formats", "reading", "cases"),
    *("augmentation", "records", "photos", "objects", "phantom", "fingerprint"),
]

NEVER = {
    "data": {"cli", "models", "jobs", "planner", "training", "evaluation"},
    "evaluation": {"cli", "models", "jobs", "planner"},
    "planner": {"cli", "models", "jobs", "data", "evaluation"},
    "training": {"cli", "models", "jobs", "data", "evaluation", "planner"},
}


def module_name(path: Path) -> str:
    """Returns the module name of a file in an installation."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = [PACKAGE, *parts] if parts[0] == "models" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(module: str) -> str:
    """Returns the unit of the package that a module belongs to, such as "ops" for mtf_imaging.ops.conv.convolution."""
    return [*module.split("."), ""][1]


def imports_of(source: str, module: str, is_package: bool = False) -> set[str]:
    """Returns the dotted names of all imports in a source; `from a import b` counts as a.b."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


@functools.cache
def imports(path: Path) -> set[str]:
    return imports_of(path.read_text(), module_name(path), path.name == "__init__.py")


def units_imported(path: Path) -> set[str]:
    return {unit_of(name) for name in imports(path) if name.split(".")[0] == PACKAGE} - {unit_of(module_name(path))}


def test_all_forms_of_imports_are_read():
    source = "import a.b\nfrom . import c\nfrom ..d import e\ndef f():\n    from mtf_imaging.ops import conv\n"
    names = imports_of(source, "mtf_imaging.cli.train")
    assert names == {"a.b", "mtf_imaging.cli.c", "mtf_imaging.d.e", "mtf_imaging.ops.conv"}
    assert imports_of("from .c import d", "mtf_imaging.cli", is_package=True) == {"mtf_imaging.cli.c.d"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_modules_import_only_from_lower_layers(path):
    unit = unit_of(module_name(path))
    if unit in RANK:
        upwards = {name for name in units_imported(path) if RANK.get(name, len(LAYERS)) >= RANK[unit]}
        assert not upwards, f"{unit} imports {upwards}, which is not in a lower layer"
    assert not units_imported(path) & NEVER.get(unit, set()), f"{unit} must not import {NEVER[unit]}"


def data_part(module: str) -> str:
    """Returns the folder or module of data/ that a module belongs to; "" for other modules and data/ itself."""
    return [*module.split("."), "", ""][2] if unit_of(module) == "data" else ""


@pytest.mark.parametrize("path", sorted((ROOT / PACKAGE / "data").rglob("*.py")), ids=module_name)
def test_folders_of_data_import_only_from_lower_layers(path):
    part = data_part(module_name(path))
    if not part:
        return
    lower = set(DATA_LAYERS[: DATA_LAYERS.index(part)])
    upwards = {data_part(name) for name in imports(path)} - lower - {part, ""}
    assert not upwards, f"data/{part} imports {upwards}, which is not in a lower layer of data/"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_compat_imports_mesh_tensorflow(path):
    direct = {name for name in imports(path) if name.split(".")[0] == "mesh_tensorflow"}
    assert not direct or path == ROOT / PACKAGE / "compat.py"


# Modules that import gin until their gin code moves to cli/.
GIN_OUTSIDE_CLI = {"mtf_imaging.jobs.model_dir", "mtf_imaging.jobs.plan"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_cli_and_models_import_gin(path):
    imports_gin = any(name.split(".")[0] == "gin" for name in imports(path))
    allowed = unit_of(module_name(path)) in {"cli", "models"}
    assert allowed or imports_gin == (module_name(path) in GIN_OUTSIDE_CLI)


@pytest.mark.parametrize("path", [path for path in FILES if path.is_relative_to(ROOT / "models")], ids=module_name)
def test_models_use_the_public_api_only(path):
    for name in imports(path):
        own = name.startswith("mtf_imaging.models")
        public = name == PACKAGE or name.split(".")[0] in {"gin", "tensorflow", *sys.stdlib_module_names}
        assert own or public, f"{module_name(path)} imports {name}; a model uses mtf_imaging (as mi), gin, tensorflow"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_every_module_that_is_imported_exists(path):
    """Includes imports within functions, which other tests may never execute."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE and not node.level:
            parts = node.module.split(".")
            parts = parts[1:] if parts[1:2] == ["models"] else parts
            place = ROOT.joinpath(*parts)
            assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), node.module


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_file_is_too_long(path):
    assert len(path.read_text().splitlines()) <= 400


def test_the_gin_folder_never_shadows_gin_config():
    assert not list((ROOT / "gin").rglob("*.py"))


@pytest.mark.parametrize(
    "statement",
    [
        "import mtf_imaging",
        "import mtf_imaging as mi; mi.layout; mi.LayoutError",
        "import mtf_imaging.layout.windows",
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
