"""The explanation of a layout as a dict of JSON types, with numbers in bytes, seconds and operations."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.prediction import ImageCost, Prediction
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.planner.cost.step_time import traffic_totals
from mtf_imaging.planner.render.field_text import field_notices

_SLICES = ("parts", "size", "last", "empty")


def as_dict(explained: Explained) -> dict:
    """Returns the explanation as a dict of JSON types."""
    plan, time, hardware, uneven = explained.plan, explained.time, explained.hardware, explained.unevenness
    cost, field, image = explained.recipe_cost, explained.receptive_field, explained.prediction

    connected, (within, between) = plan.interconnect, traffic_totals(plan)

    def memory(plan):
        return {
            "weights": plan.weights,
            "optimizer": plan.state,
            "peak_activations": plan.temporary,
            "total": plan.memory,
            "fits": explained.fits(plan),
        }

    def at_ends(function):
        return {"interior": function(plan.interior), "border": function(plan.border)}

    return {
        "mesh_shape": plan.layout.mesh_string,
        "layout": plan.layout.rules_string,
        "processors": plan.processors,
        "devices": plan.devices,
        "batch_size": explained.batch_size,
        "micro_batches": plan.parts,
        "dtype": explained.dtype,
        "receptive_field": field and _field_dict(field),
        "patch": _patch_dict(image) if image and image.has_patches else None,
        "prediction": image
        and {
            "windows": _prediction_dict(image.sliding),
            "whole": _prediction_dict(image.whole),
            "all_probabilities": image.all_probabilities,
        },
        "turns": plan.turns and plan.turns._asdict() | {"memory": plan.turns.memory},
        "memory_a_device": {
            name: memory(variant)
            for name, variant in (("kept", explained.kept), ("recomputed", explained.recomputed))
            if variant is not None
        },
        "recompute": explained.recomputes,
        "step": {
            **{
                phase: {
                    "flops_a_processor": plan.total(lambda op: op.flops, phase),
                    "halo_bytes_sent": at_ends(lambda at, phase=phase: plan.sent(at, phase)),
                    "halo_exchanges": plan.count(phase=phase),
                    "all_reduces": plan.count(("sum",), phase),
                }
                for phase in ("forward", "backward", "update")
            },
            "weight_bytes_read_a_device": plan.weights_sent,
            "optimizer_bytes_read_a_device": plan.state_sent,
        },
        "interconnect": {
            "mesh_impl": connected.mesh_impl,
            "num_hosts": connected.num_hosts,
            "devices_a_host": connected.devices_per_host,
            "transport": connected.transport,
            "bytes_within_hosts": round(within),
            "bytes_between_hosts": round(between),
        },
        "start_up": {
            name: {**start._asdict(), "takes_too_long": start.takes_too_long}
            for name, start in explained.start_ups.items()
        },
        "layout_changes": [dataclasses.asdict(change) for change in plan.changes],
        "uneven": {
            "wasted_share": plan.wasted,
            "slices": {
                f"{split.dim}:{split.slices.whole}": {name: getattr(split.slices, name) for name in _SLICES}
                for split in plan.uneven_splits
            },
            "growing_halos": {growing.name: growing.halo for growing in uneven.growing},
            "better_sizes": dict(uneven.better),
        },
        "hardware": dataclasses.asdict(hardware) if hardware else None,
        "seconds": {**time._asdict(), "total": time.total, "exchange_share": time.exchange_share} if time else None,
        "recipe": {"step_time": "computed", **dataclasses.asdict(cost)} if cost else None,
        "operations": [_op_dict(plan, op) for op in plan.ops],
    }


def _field_dict(field: ReceptiveField) -> dict:
    return {
        "voxels": dict(field.voxels),
        "image": dict(field.image),
        "patch": field.patch and dict(field.patch),
        "seen": field.seen,
        "spacing_mm": field.spacing and list(field.spacing),
        "covers_image": field.covers_image,
        "narrow": field.narrow,
        "cut": field.cut,
        "statistics": field.statistics,
        "notices": list(field_notices(field)),
    }


def _patch_dict(patch: ImageCost) -> dict:
    return {
        "voxels": list(patch.patch),
        "image": list(patch.image),
        "share": patch.share,
        "windows": patch.windows,
        "window_step": patch.window_step,
    }


def _prediction_dict(prediction: Prediction | None) -> dict | None:
    if prediction is None:
        return None
    return {
        "memory_a_device": prediction.plan.memory,
        "memory_a_process": prediction.process,
        "temporary_files": prediction.files,
        "passes": prediction.passes,
        "seconds": prediction.seconds,
        "fits": prediction.fits,
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
        "useful_flops": op.useful_flops,
        "memory_bytes_a_device": op.memory_traffic + op.halo_copies,
        "result_bytes": op.nbytes,
        "halo_bytes_sent": dict(zip(("interior", "border"), sent, strict=True)),
        "exchanges": [dataclasses.asdict(exchange) for exchange in op.exchanges],
    }
