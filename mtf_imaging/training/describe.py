"""Tables of the per-processor slices of a program."""

from collections.abc import Iterable

from mtf_imaging.engine.program.program import Program
from mtf_imaging.training.frozen import describe_frozen
from mtf_imaging.training.task import Inputs


def describe_slices(program: Program, inputs: Inputs) -> str:
    """Returns a table with the whole shape and the per-processor shape of each input and each weight.

    The last rows list the operations at which the layout changes within the program, with the shapes before and after.
    The lines below the table list the dimensions of inputs and weights with uneven slices, and count the weights and
    the frozen weights.

    Args:
      program: a `Program`.
      inputs: {name: (shape string, dtype)}, as returned by `training.task.task_inputs`.
    """
    rows = [("input or weight", "whole", "slice of one processor")]
    for name, (shape, _) in inputs.items():
        rows.append((name, shape.replace(",", " "), _shape(program.slice_shape(name))))
    weights = {name: variable for name, variable in program.variables.items() if variable.trainable}
    for name, variable in weights.items():
        rows.append((name, _shape(variable.shape.as_list()), _shape(program.slice_shape(name))))
    for change in program.changes:
        rows.append((change.name, _shape(change.whole), f"{_shape(change.before)} -> {_shape(change.after)}"))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"{name:{widths[0]}}  {whole:{widths[1]}}  {part}".rstrip() for name, whole, part in rows]
    lines += map(str, program.uneven_splits)
    elements = sum(variable.shape.num_elements() for variable in weights.values())
    others = len(program.variables) - len(weights)
    lines.append(f"{elements:,} weights in {len(weights)} variables; {others} more of norms and the optimizer")
    if program.frozen:
        lines.append(describe_frozen(program))
    return "\n".join(lines)


def _shape(sizes: Iterable[int]) -> str:
    return " x ".join(map(str, sizes))


def describe_run(program: Program, inputs: Inputs) -> str:
    """Returns the mesh, the layout and the table of `describe_slices` as Markdown.

    Args:
      program: a `Program`.
      inputs: {name: (shape string, dtype)}, as returned by `training.task.task_inputs`.
    """
    size, mesh = program.mesh_impl.size, program.layout.mesh_string
    devices = ", ".join(map(str, program.mesh_impl.devices))
    return "\n".join(
        [
            f"- mesh `{mesh}`: {size} processor{'s' * (size > 1)}, on {devices}",
            f"- layout `{program.layout.rules_string}`",
            "",
            *fenced(describe_slices(program, inputs)),
        ]
    )


def fenced(text: str) -> list[str]:
    """Returns a text as the lines of a Markdown code block."""
    return ["```", text, "```"]
