"""What is said of a layout as a dict of JSON's types, for programs: bytes, seconds and operations as numbers."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.planner.cost.explained import Explained


def as_dict(explained: Explained) -> dict:
    """The dict."""
    plan, time, hardware = explained.plan, explained.time, explained.hardware

    def memory(of):
        fields = {"weights": of.weights, "optimizer": of.state, "peak_activations": of.peak.nbytes, "total": of.memory}
        return {**fields, "fits": explained.fits(of)}

    def ends(of):
        return {"interior": of(plan.interior), "border": of(plan.border)}

    return {
        "mesh_shape": plan.layout.mesh_string,
        "layout": plan.layout.rules_string,
        "processors": plan.processors,
        "devices": plan.devices,
        "batch_size": explained.batch_size,
        "micro_batches": plan.parts,
        "dtype": explained.dtype,
        "memory_a_device": {
            name: memory(of)
            for name, of in (("kept", explained.kept), ("recomputed", explained.recomputed))
            if of is not None
        },
        "recompute": explained.recomputes,
        "step": {
            **{
                phase: {
                    "flops_a_processor": plan.total(lambda op: op.flops, phase),
                    "halo_bytes_sent": ends(lambda at, phase=phase: plan.sent(at, phase)),
                    "halo_exchanges": plan.count(phase=phase),
                    "all_reduces": plan.count(("sum",), phase),
                }
                for phase in ("forward", "backward", "update")
            },
            "weight_bytes_read_a_device": plan.weights_sent,
            "optimizer_bytes_read_a_device": plan.state_sent,
        },
        "hardware": dataclasses.asdict(hardware) if hardware else None,
        "seconds": {**time._asdict(), "total": time.total, "exchange_share": time.exchange_share} if time else None,
        "operations": [_op_dict(plan, op) for op in plan.ops],
    }


def _op_dict(plan, op) -> dict:
    sent: Sequence = [op.sent(at, plan.grid.mesh) for at in (plan.interior, plan.border)]
    return {
        "name": op.name,
        "kind": op.kind,
        "phase": op.phase,
        "whole": op.whole,
        "slice": list(op.slice),
        "halo": {dim: list(widths) for dim, widths in op.halo.items()},
        "flops": op.flops,
        "result_bytes": op.nbytes,
        "halo_bytes_sent": dict(zip(("interior", "border"), sent, strict=True)),
        "exchanges": [dataclasses.asdict(exchange) for exchange in op.exchanges],
    }
