"""The card of an exported network, which describes its inputs and outputs as JSON and as text."""

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from mtf_imaging.evaluation.export.formats import FORMATS, ModelFormat
from mtf_imaging.evaluation.export.signature import Signature
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import FIELD

CARD, README = "input.json", "README.md"
_WIDTH = 120
_NEEDS = {
    "saved_model": "It needs only TensorFlow.",
    "onnx": "Each signature is a file, which needs only ONNX Runtime or another runtime of ONNX.",
    "tflite": "Each signature is a file, which needs only LiteRT, the former TensorFlow Lite.",
}


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """The information that a user of an exported network needs.

    Attributes:
      kind: "volumes", "photos", "objects" or "arrays".
      source: the run, or the folder that contains the runs of an ensemble.
      provenance: the networks of the runs, and the version of this package.
      checkpoint: "last" or "best".
      dtype: the dtype of activations.
      flips: the axes over whose flips the probabilities are averaged.
      facts: facts about the data, JSON values by name.
      notes: sentences about the input.
      signatures: the signatures, the default one first.
      model_format: the format of the files.
    """

    kind: str
    source: str
    provenance: Provenance
    checkpoint: str
    dtype: str
    flips: tuple[str, ...]
    facts: dict[str, Any]
    notes: tuple[str, ...]
    signatures: tuple[Signature, ...]
    model_format: ModelFormat = FORMATS["saved_model"]

    @property
    def runs(self) -> tuple[tuple[str, int], ...]:
        """Name and step of each run."""
        return tuple((run.name, run.step) for run in self.provenance.runs)

    def file(self, signature: Signature) -> str:
        """Returns the file name of a signature; "" for a folder with all signatures."""
        return f"{signature.name}{self.model_format.ending}" if self.model_format.ending else ""

    def as_json(self) -> str:
        """Returns the text of `input.json`."""
        fields = {
            "made_by": f"mtf_imaging {self.provenance.package.version}",
            "format": self.model_format.name,
            "kind": self.kind,
            "runs": [{"name": name, "step": step} for name, step in self.runs],
            "checkpoint": self.checkpoint,
            "dtype": self.dtype,
            "flips": list(self.flips),
            **self.facts,
            "notes": list(self.notes),
            "signatures": {
                one.name: one.as_json() | ({"file": self.file(one)} if self.file(one) else {})
                for one in self.signatures
            },
            FIELD: self.provenance.as_json(),
        }
        return json.dumps(fields, indent=1) + "\n"

    def as_text(self) -> str:
        """Returns the inputs and outputs of all signatures, and the notes, as the command prints them."""
        lines = []
        for signature in self.signatures:
            lines.append(f"{signature.name}: {signature.meaning}")
            for title, fields in (("input", signature.inputs), ("output", signature.outputs)):
                for field in fields:
                    lines += _wrapped(f"  {title} {field}", indent=4)
                    lines += _wrapped(f"      {field.meaning}", indent=6)
        lines += [line for note in self.notes for line in _wrapped(note)]
        return "\n".join(lines)

    def as_markdown(self) -> str:
        """Returns the text of `README.md`."""
        steps = ", ".join(f"{name} (step {step})" for name, step in self.runs)
        only = f"the {self.checkpoint} checkpoint of {self.source}, step {self.runs[0][1]}"
        several = f"the {self.checkpoint} checkpoints of the runs in {self.source}: {steps}"
        lines = [
            f"# A network for {self.kind}",
            "",
            *_wrapped(
                f"{self.provenance.package.text} exported this {self.model_format.title} model from "
                f"{only if len(self.runs) == 1 else several}. {_NEEDS[self.model_format.name]} "
                f"`{CARD}` states the same facts for programs."
            ),
            "",
            "```python",
            *_EXAMPLES[self.model_format.name](self.signatures[-1], self.file(self.signatures[-1])),
            "```",
            "",
            *(f"- {name}: {json.dumps(value)}" for name, value in self.facts.items() if value is not None),
            "",
            *(line for note in self.notes for line in [*_wrapped(note), ""]),
        ]
        for signature in self.signatures:
            lines += [f"## Signature `{signature.name}`", "", signature.meaning, ""]
            lines += [f"Its file is `{self.file(signature)}`.", ""] if self.file(signature) else []
            lines += ["| | name | dtype | shape | meaning |", "| --- | --- | --- | --- | --- |"]
            for title, fields in (("input", signature.inputs), ("output", signature.outputs)):
                for field in fields:
                    lines.append(f"| {title} | `{field.name}` | {field.dtype.name} | {field.sizes} | {field.meaning} |")
            lines.append("")
        return "\n".join(lines)


def _saved_model_example(signature: Signature, file: str) -> list[str]:
    arguments = ", ".join(
        f"{field.name}=tf.constant({field.name}, tf.{field.dtype.name})" for field in signature.inputs
    )
    outputs = _result_lines(signature)
    call = f'results = model.signatures["{signature.name}"]({arguments})'
    return ["import tensorflow as tf", "", 'model = tf.saved_model.load("FOLDER")', call, *outputs]


def _onnx_example(signature: Signature, file: str) -> list[str]:
    names = [field.name for field in signature.outputs]
    return [
        "import onnxruntime",
        "",
        f'session = onnxruntime.InferenceSession("FOLDER/{file}")',
        f"arrays = {{{_array_arguments(signature)}}}",
        f"results = dict(zip({names}, session.run({names}, arrays)))",
        *_result_lines(signature),
    ]


def _tflite_example(signature: Signature, file: str) -> list[str]:
    return [
        "from ai_edge_litert.interpreter import Interpreter",
        "",
        f'run = Interpreter("FOLDER/{file}").get_signature_runner()',
        f"results = run(**{{{_array_arguments(signature)}}})",
        *_result_lines(signature),
    ]


def _array_arguments(signature: Signature) -> str:
    return ", ".join(f'"{field.name}": {field.name}.astype("{field.dtype.name}")' for field in signature.inputs)


def _result_lines(signature: Signature) -> list[str]:
    return [f'results["{field.name}"]  # {field}' for field in signature.outputs]


_EXAMPLES = {"saved_model": _saved_model_example, "onnx": _onnx_example, "tflite": _tflite_example}


def _wrapped(text: str, indent: int = 0) -> Sequence[str]:
    start = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text.strip(), _WIDTH, initial_indent=start, subsequent_indent=" " * indent)
