"""Links names to their descriptions, which stand below the names that users import."""

import importlib
import re

from docutils import nodes
from sphinx.util.nodes import make_refnode

_MODULES = ("", ".data", ".jobs", ".layout", ".meshes", ".ops", ".training.optimizers")


def public_names() -> dict[str, str]:
    """Returns the public name of each exported class and function: {module.name of its definition: public name}."""
    found: dict[str, str] = {}
    for module_name in _MODULES:
        module = importlib.import_module(f"mtf_imaging{module_name}")
        for name in module.__all__:
            thing = getattr(module, name)
            if hasattr(thing, "__qualname__") and thing.__module__.startswith("mtf_imaging"):
                found.setdefault(f"{thing.__module__}.{thing.__qualname__}", f"mtf_imaging{module_name}.{name}")
    return found


def setup(app) -> dict:
    definitions = public_names()

    def resolve(app, env, node, text) -> nodes.Node | None:
        if node.get("refdomain") != "py":
            return None
        target = node["reftarget"].removesuffix("()")
        objects = env.get_domain("py").objects
        short = re.sub(r"^(mi|mtf_imaging)\.", "", target)
        candidates = [definitions.get(target, target), f"mtf_imaging.{short}"]
        ending = [name for name in objects if name.endswith(f".{short}")]
        if len(ending) == 1:  # the site has one thing of that name
            candidates += ending
        for name in candidates:
            if name in objects:
                entry = objects[name]
                return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, text, name)
        return None

    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
