"""The generated parts of the documentation are complete, and agree with the output of the commands."""

import importlib
import re
from pathlib import Path

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.commands.all_commands import COMMANDS, load
from mtf_imaging.cli.config import resources
from mtf_imaging.cli.config.flags_of_settings import required
from mtf_imaging.cli.runtime import usage
from tests import pages

pytest.importorskip("pygments", reason="make docs installs what builds the site")
from site_extension import contents, generated_pages

DOCS = Path(__file__).parents[1] / "docs"
# Modules whose __all__ the API pages list.
MODULES = ("data", "jobs", "engine.layout", "engine.meshes", "engine.ops", "training.optimizers")
# Names that are described under another module.
ELSEWHERE = {
    *(f"mtf_imaging.engine.layout.{name}" for name in ("Layout", "LayoutError", "Rules", "Shape")),
    "mtf_imaging.engine.meshes.MESH_IMPLS",
}


def plain(markdown):
    """Returns text without Markdown syntax and spaces, because help lines may break at a hyphen."""
    return re.sub(r"\s+", "", re.sub(r"\\([*\[\]<>|])", r"\1", markdown).replace("`", ""))


@pytest.mark.parametrize("name", COMMANDS)
def test_sections_of_commands_say_what_help_says(name):
    section, module = plain(generated_pages.command(name)), load(name)
    _, *rest = re.split(r"^(?:\w+ f|F)lags:$", usage.command_help(name, module), flags=re.MULTILINE)
    for part in re.split(r"\n\s*\n|\n  --", "\n\n".join(rest)):
        flag, _, meaning = re.sub(r" \(required[^()]*\)\n", "\n", part.strip().removeprefix("--")).partition("\n")
        meaning = re.sub(r"\s*\(default:[^()]*\)$", "", meaning)
        meaning = re.sub(r"<([^<>]*)>: ", lambda match: match[1].replace("|", ", ") + ". ", meaning)
        assert plain(f"{flag}\n{meaning}") in section or (
            f"|--{flag.strip()}|" in section and plain(meaning) in section
        )
    assert plain(module.EXAMPLE) in section
    for flag in required(*module.SETTINGS):
        assert plain(f"|--{flag}|{usage.needed(module, flag)}|") in section


def test_every_command_has_a_section():
    assert pages.anchors(generated_pages.commands()) >= set(COMMANDS)


def test_every_gin_parameter_has_a_row():
    text = generated_pages.parameters()
    rows = [row for _, rows in generated_pages.shipped_configurables().values() for row in rows]
    assert {"unet3d.UNet3D.depth", "train.num_steps", "Adam.learning_rate"} <= {row.name for row in rows}
    for parameter in rows:
        assert f"| `{parameter.name}` | {generated_pages._escaped(f'`{parameter.type}`')} |" in text
        assert plain(parameter.meaning) in plain(text)


def test_every_shipped_file_is_shown():
    text = generated_pages.gin_files() + generated_pages.layout_files()
    for path in resources.shipped_files().values():
        assert f"### {path.stem}\n" in text
        assert path.read_text().strip() in text


def test_every_error_class_is_listed():
    text = generated_pages.error_classes()
    api = (DOCS / "reference/api/errors.md").read_text()
    for name in mi.__all__:
        if name.endswith(("Error", "Interrupted")):
            assert f"`mi.{name}`" in text
            assert name in api.split()


def documented():
    """Yields the names on the API pages."""
    for page in DOCS.glob("reference/api/*.md"):
        for module, names in re.findall(r"^<!-- generated: api (\S+): (.+) -->$", page.read_text(), re.MULTILINE):
            yield from (f"{module}.{name}" for name in names.split())


def test_every_public_name_is_on_one_page():
    names = list(documented())
    assert len(names) == len({*names})
    for module_name in MODULES:
        module = importlib.import_module(f"mtf_imaging.{module_name}")
        missing = {f"{module.__name__}.{name}" for name in module.__all__} - {*names} - ELSEWHERE
        assert not missing
    for name in names:
        module_name, _, attribute = name.rpartition(".")
        thing = getattr(importlib.import_module(module_name), attribute)
        assert thing.__doc__


def test_comments_of_pages_name_a_part():
    for page in DOCS.rglob("*.md"):
        for name in re.findall(r"<!-- generated: (.*?) -->", page.read_text()):
            assert name in generated_pages.PARTS or name.startswith("api "), page
    with pytest.raises(ValueError, match="Known: commands"):
        generated_pages.expand("<!-- generated: dances -->")


def test_text_is_escaped_for_a_table():
    assert generated_pages._escaped("a|b, --num_steps, x * y, `c*|d`") == "a\\|b, `--num_steps`, x \\* y, `c*\\|d`"


@pytest.mark.parametrize("folder", ["start", "guides", "concepts", "reference", "reference/api", "evidence"])
def test_pages_of_a_folder_are_listed(folder):
    tree = contents.expand((DOCS / folder / "index.md").read_text()).partition(":hidden:\n\n")[2]
    listed = {(DOCS / folder / line).resolve() for line in tree.removesuffix("```\n").split()}
    files = {*(DOCS / folder).glob("*.md"), *(DOCS / folder).glob("*.ipynb"), *(DOCS / folder).glob("*/index.md")}
    assert listed == {path.with_suffix("") for path in files} - {DOCS / folder / "index"}
