"""Settings of the documentation site; `make docs` builds it."""

import builtins
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from mtf_imaging import __version__  # noqa: E402
from mtf_imaging.cli.runtime.quiet import import_tensorflow  # noqa: E402

import_tensorflow()  # autodoc needs TensorFlow; here its log lines are hidden

language = "en"
project = "mtf_imaging"
author = "the authors of mtf_imaging"
copyright = ""
version = __version__
# "0.1.0 (unreleased)" until the changelog has the day of the release
_newest = re.search(r"^## (\S+) \((\S+)\)$", (HERE.parent / "CHANGELOG.md").read_text(), re.MULTILINE)
release = version if _newest.groups() != (version, "unreleased") else f"{version} (unreleased)"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "site_extension.contents",
    "site_extension.generated_pages",
    "site_extension.docstrings",
    "site_extension.public_names",
    "site_extension.repository_links",
    "site_extension.offline",
]
site_contents = [
    "start/index",
    "guides/index",
    "concepts/index",
    "reference/index",
    "evidence/index",
    "security",
    "contributing",
    "changelog",
    "releasing",
]
smartquotes = False  # would turn the hyphens of --flag into a dash

# Every reference must have a target, with these exceptions.
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", ".*"),  # any word in backticks
    ("py:class", r"(?!mtf_imaging\.).*"),  # types of Python, NumPy, TensorFlow and mesh_tensorflow in signatures
    ("py:class", r"mtf_imaging\..*"),  # internal types in signatures
]
nitpick_ignore = [("py:exc", name) for name in dir(builtins)]

# Markdown and the notebook. The notebook file contains its outputs, so the build does not run it.
# tests/test_notebook.py runs it.
myst_heading_anchors = 4
nb_execution_mode = "off"

# Python API
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
autosummary_generate = False
toc_object_entries_show_parents = "hide"

# HTML. Pages load only files in the output folder.
html_theme = "furo"
html_title = f"mtf_imaging {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"footer_icons": []}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
