"""Weights & Biases as a tracking service."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.training.observers.tracking.service import Row, RunInfo

OFFLINE = ("offline", "dryrun", "disabled")  # modes of WANDB_MODE that need no account
_FINISH_SECONDS = 50  # less than the time that a tracker waits at the end of a run


def current_mode() -> Any:
    """Returns the mode, such as "offline", from WANDB_MODE or the W&B settings file."""
    import wandb

    return os.environ.get("WANDB_MODE") or wandb.setup().settings.mode


def has_account() -> bool:
    """Returns whether W&B has an API key or needs none; it would otherwise ask for the key during the training."""
    import wandb

    if os.environ.get("WANDB_MODE") in OFFLINE:
        return True
    wandb.setup(wandb.Settings(silent=True))
    return current_mode() in OFFLINE or bool(wandb.login(prompt=False, verify=False))


class Wandb:
    """Weights & Biases runs. WANDB_MODE, WANDB_BASE_URL and other variables choose the server."""

    title = "Weights & Biases"

    def __init__(self) -> None:
        self._run: Any = None

    def connect(self, info: RunInfo) -> str:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # crash reports of wandb itself
        import wandb

        return f"{wandb.setup().settings.base_url} {os.environ.get('WANDB_ENTITY', '')} {info.project}"

    def open(self, info: RunInfo, run_id: str | None) -> tuple[str, dict[str, int]]:
        import wandb

        mode = current_mode()
        run_id = run_id or secrets.token_hex(4)
        quiet: dict[str, Any] = {"console": "off", "quiet": True, "silent": True, "reinit": "create_new"}
        private: dict[str, Any] = {"disable_git": True, "save_code": False}
        settings = wandb.Settings(**quiet, **private, finish_timeout=_FINISH_SECONDS)
        self._run = run = wandb.init(
            project=info.project,
            name=info.name,
            id=run_id,
            resume=None if mode in OFFLINE else "allow",
            mode=mode,
            dir=os.environ.get("WANDB_DIR") or info.folder,
            settings=settings,
        )
        run.config.update({**info.parameters, "mtf_imaging_version": info.version}, allow_val_change=True)
        # W&B drops values for steps before its own step counter. The counter therefore only counts rows.
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
        for name, text in info.texts.items():
            (Path(run.dir) / name).write_text(text)  # W&B stores the files of this folder
        return run_id, {}

    def log(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log({**row.named, "step": row.step}, commit=True)

    def close(self, is_complete: bool) -> None:
        self._run.finish(exit_code=0 if is_complete else 1)
