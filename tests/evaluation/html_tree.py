"""An HTML page as a tree, built with the parser of the standard library."""

import re
from html.parser import HTMLParser

_VOID = {"br", "img", "input", "meta"}


class Node:
    """An element with its tag, attributes and children; text children are strings."""

    def __init__(self, tag="", attributes=()):
        self.tag, self.attributes, self.children = tag, dict(attributes), []

    def __getitem__(self, name):
        return self.attributes[name]

    def get(self, name, default=None):
        return self.attributes.get(name, default)

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def classes(self):
        return self.get("class", "").split()

    def all(self, tag=None, **attributes):
        """Yields all descendants with a tag and attributes.

        Args:
          tag: the tag, or None for any tag.
          attributes: `data_x` stands for data-x; `class_` matches one of the element's classes.
        """
        wanted_class = attributes.pop("class_", None)
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        for child in self.children:
            if isinstance(child, Node):
                right = tag in (None, child.tag) and (wanted_class is None or wanted_class in child.classes)
                if right and all(child.get(name) == value for name, value in wanted.items()):
                    yield child
                yield from child.all(tag, **attributes, **({"class_": wanted_class} if wanted_class else {}))

    def one(self, tag=None, **attributes):
        (node,) = self.all(tag, **attributes)
        return node


class _Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Node()]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, attrs)
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parse(text):
    """Returns the root of a page and checks that every open element is closed."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    (root,) = parser.open
    return root


def assert_stands_alone(page, folder):
    """Checks that the report of a folder loads nothing from elsewhere, and does not name its place."""
    for node in page.all():
        for name in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
            target = node.get(name)
            is_own = target is None or re.match(r"#|data:image/(png|jpeg);base64,", target)
            assert is_own, (node.tag, target)
        assert node.tag not in ("link", "iframe", "object", "embed", "base")
    text = (folder / "report.html").read_text()
    assert not re.search(r"https?:|//\w+\.|@import", re.sub(r"base64,[\w+/=]+", "", text))
    assert set(re.findall(r"url\((.{11})", text)) <= {"data:image/"}
    assert str(folder.parent) not in text
    assert "$" not in text.split("<script>")[0]
    policy = page.one("meta", http_equiv="Content-Security-Policy")["content"]
    assert policy.startswith("default-src 'none'; img-src data:;")
