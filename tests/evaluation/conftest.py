"""The report and the scores in the folder that a module's fixture `scored` writes."""

import json

import pytest

from tests.evaluation.html_tree import parse


@pytest.fixture(scope="module")
def page(scored):
    return parse((scored / "report.html").read_text())


@pytest.fixture(scope="module")
def metrics(scored):
    return json.loads((scored / "metrics.json").read_text())
