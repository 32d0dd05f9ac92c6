"""What one processor holds of a program, as a table."""


def describe_slices(program, inputs):
    """Returns the table: each input and each weight, whole, and as one processor holds it.

    Then, each place where the slices of what is computed change, and how.

    Args:
      program: a `Program`.
      inputs: {name: (shape string, dtype)} of its inputs, as of `training.task.task_inputs`.
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
    elements = sum(variable.shape.num_elements() for variable in weights.values())
    others = len(program.variables) - len(weights)
    lines.append(f"{elements:,} weights in {len(weights)} variables; {others} more of norms and the optimizer")
    return "\n".join(lines)


def _shape(sizes):
    return " x ".join(map(str, sizes))


def describe_run(program, inputs):
    """Returns what `describe_slices` says and the mesh and the layout, in Markdown.

    Args:
      program: a `Program`.
      inputs: names of its inputs, with their (shape string, dtype).
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


def fenced(text):
    """Lines of Markdown that show a text as it is."""
    return ["```", text, "```"]
