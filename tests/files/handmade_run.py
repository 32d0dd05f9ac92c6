"""Writes the small files of a run, without weights."""

import json

from mtf_imaging.files.provenance.runs import training_provenance


def write_run(folder, steps=(4,), best=None):
    """Writes a run with checkpoints of some steps."""
    folder.mkdir(parents=True)
    (folder / "config.gin").write_text("setup.layout = 'x:rows'\n")
    for step in steps:
        (folder / f"ckpt-{step}.index").write_text(f"index {step}")
    if best is not None:
        (folder / "best").mkdir()
        (folder / f"best/ckpt-{best}.index").write_text(f"index {best}")
    facts = {"resolution": "x:24,y:20,z:16", "spacing": "", "fold_digest": None}
    facts["provenance"] = training_provenance(folder, {"1": "aa", "12": "bb"}, 0, "rows:2", "x:rows")
    (folder / "run.json").write_text(json.dumps(facts))
