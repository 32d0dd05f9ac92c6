"""The messages on the page of errors are messages of the code."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tests import pages

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/errors.md"
MESSAGES = "\n".join(pages.blocks(PAGE, "text")).split("\n\n")  # a blank line separates two in one block
# Shorter strings, for instance ", ", occur in every message.
SHORTEST = 16
# Shorter parts of a message may be values.
LONGEST_VALUE = 40


@functools.cache
def templates():
    """Returns a pattern for each string of the code, with a wildcard for each value that is filled in."""
    patterns = set()
    for file in ROOT.glob("mtf_imaging/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = [node.value]
            else:
                continue
            if sum(len(part or "") for part in parts) >= SHORTEST:
                patterns.add("".join(".*?" if part is None else re.escape(part.strip("\n")) for part in parts))
    return [re.compile(pattern, re.DOTALL) for pattern in patterns]


def unknown_parts(message):
    """Returns the parts of a message that no string of the code explains."""
    explained = [False] * len(message)
    for pattern in templates():
        for match in pattern.finditer(message):
            explained[match.start() : match.end()] = [True] * (match.end() - match.start())
    marked = "".join(letter if not there else "\0" for letter, there in zip(message, explained, strict=True))
    return [part.strip() for part in marked.split("\0") if len(part.strip()) > LONGEST_VALUE]


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: " ".join(message.split()[:4]))
def test_messages_on_the_page_are_messages_of_the_code(message):
    assert not unknown_parts(message)


def test_another_message_is_not_accepted():
    message = "run: this folder holds no checkpoint at all. Fix: train there first, or look elsewhere for a model_dir."
    assert unknown_parts(message)
