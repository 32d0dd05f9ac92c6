"""The report and the scores in the folder that a module's fixture `scored` writes."""

from tests.evaluation.conftest import metrics, page  # noqa: F401
