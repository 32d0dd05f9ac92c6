"""MLflow as a tracking service."""

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from mtf_imaging.training.observers.tracking.service import HELD_OUT, TRAIN, Row, RunInfo

_MOST_METRICS, _MOST_PARAMETERS = 1000, 100  # per request, the limits of MLflow's REST API
_MOST_CHARACTERS = 500  # per parameter, the limit before MLflow 2.8


class Mlflow:
    """MLflow runs. MLFLOW_TRACKING_URI names the server, folder or database."""

    title = "MLflow"

    def __init__(self) -> None:
        self._client: Any = None
        self._run_id = ""

    def connect(self, info: RunInfo) -> str:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # only the user's own server receives data
        import mlflow

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)  # a new database logs each of its tables
        self._client = mlflow.MlflowClient()
        return f"{mlflow.get_tracking_uri()} {info.project}"

    def open(self, info: RunInfo, run_id: str | None) -> tuple[str, dict[str, int]]:
        client = self._client
        if run_id is None:
            tags = {"mtf_imaging.version": info.version, "mlflow.source.name": "mtf_imaging"}
            run = client.create_run(self._experiment(info.project), run_name=info.name, tags=tags)
            run_id = run.info.run_id
            for part in _parts([*info.parameters.items()], _MOST_PARAMETERS):
                client.log_batch(run_id, params=[_parameter(name, value) for name, value in part])
            last = {}
        else:
            client.update_run(run_id, status="RUNNING")
            last = self._last_steps(run_id)
        self._run_id = run_id
        for name, text in info.texts.items():
            client.log_text(run_id, text, name)
        return run_id, last

    def log(self, rows: Sequence[Row]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, row.step) for row in rows for name, value in row.named.items()]
        for part in _parts(metrics, _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=part)

    def close(self, is_complete: bool) -> None:
        self._client.set_terminated(self._run_id, "FINISHED" if is_complete else "KILLED")

    def _experiment(self, name: str) -> str:
        """Returns the id of an experiment, which is created if it does not exist."""
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            with contextlib.suppress(MlflowException):  # another run may create it at the same time
                return self._client.create_experiment(name)
            found = self._client.get_experiment_by_name(name)
        return found.experiment_id

    def _last_steps(self, run_id: str) -> dict[str, int]:
        """Returns the last steps that the server has, because a killed run may not have stored them."""
        last = {}
        names = sorted(self._client.get_run(run_id).data.metrics)
        for group in (TRAIN, HELD_OUT):
            name = next((name for name in names if name.startswith(f"{group}/")), None)
            if name is not None:
                last[group] = max(one.step for one in self._client.get_metric_history(run_id, name))
        return last


def _parameter(name: str, value: str) -> Any:
    from mlflow.entities import Param

    return Param(name, value if len(value) <= _MOST_CHARACTERS else f"{value[: _MOST_CHARACTERS - 3]}...")


def _parts(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while part := [*itertools.islice(iterator, size)]:
        yield part
