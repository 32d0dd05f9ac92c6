"""Shows functions and classes by their public names, such as `mi.ops.conv3d`, and resolves links to them."""

import importlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

# modules that are not attributes of `mi`
_NOT_BELOW_MI = ("mtf_imaging.evaluation.", "mtf_imaging.models.")
# modules with an `__all__`
_MODULES = ("", ".data", ".jobs", ".engine.layout", ".engine.meshes", ".engine.ops", ".training.optimizers")


def public_names() -> dict[str, str]:
    """Returns the public name of each exported class and function: {module and name of the definition: public name}."""
    names: dict[str, str] = {}
    for module_name in _MODULES:
        module = importlib.import_module(f"mtf_imaging{module_name}")
        for name in module.__all__:
            thing = getattr(module, name)
            if hasattr(thing, "__qualname__") and thing.__module__.startswith("mtf_imaging"):
                names.setdefault(f"{thing.__module__}.{thing.__qualname__}", f"mtf_imaging{module_name}.{name}")
    return names


class ShortPrefix(SphinxTransform):
    """Writes `mi.ops.` instead of `mtf_imaging.engine.ops.` before the name in a signature."""

    default_priority = 500

    def apply(self) -> None:
        for node in self.document.findall(addnodes.desc_addname):
            text = node.astext()
            if text.startswith("mtf_imaging.") and not text.startswith(_NOT_BELOW_MI):
                node.children = [nodes.Text(re.sub(r"^mtf_imaging\.(engine\.)?", "mi.", text))]


def setup(app) -> dict:
    definitions = public_names()

    def resolve(app, env, node, text) -> nodes.Node | None:
        if node.get("refdomain") != "py":
            return None
        target = node["reftarget"].removesuffix("()")
        objects = env.get_domain("py").objects
        short = re.sub(r"^(mi|mtf_imaging)\.", "", target)
        candidates = [definitions.get(target, target), f"mtf_imaging.{short}", f"mtf_imaging.engine.{short}"]
        ending = [name for name in objects if name.endswith(f".{short}")]
        if len(ending) == 1:  # the name is unique on the site
            candidates += ending
        for name in candidates:
            if name in objects:
                entry = objects[name]
                return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, text, name)
        return None

    app.add_transform(ShortPrefix)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
