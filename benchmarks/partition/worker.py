"""The process of a contender: it loads, builds and takes steps on request.

It reads the commands "load", "build", "step", "profile" and "end", one per line, and answers each with a line of JSON.
"""

import dataclasses
import json
import os
import sys
import time

from benchmarks.partition import memory
from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step


def arguments(contender: Contender, step: Step) -> list[str]:
    """Returns the command line arguments of a worker, after the interpreter."""
    return ["-m", "benchmarks.partition.worker", str(contender), json.dumps(dataclasses.asdict(step))]


def main(name: str, step: str) -> None:
    """Serves a contender until it reads "end" or its parent exits.

    Args:
      name: the name of the contender.
      step: the fields of the `Step`, as JSON.
    """
    # Output of the libraries goes to stderr, so that stdout contains only the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    fields = json.loads(step)
    contender, step = Contender.parse(name), Step(**{**fields, "sizes": tuple(fields["sizes"])})
    built = None
    for line in sys.stdin:
        word, answer, begin = line.strip(), {}, time.perf_counter()
        if word == "load":
            built = contender.load(contender.step(step))
            answer = {"others": built.others()}
        elif word == "build":
            built.build()
            answer = {"nodes": built.nodes}
        elif word == "step":
            answer = {"loss": built.take()}
        elif word == "profile":
            from benchmarks import step_profile  # which imports the parent's side of this module

            parts = contender.processors if contender.kind == "collective" else 1
            answer = step_profile.profile(built, parts)
        elif word == "end":
            answer = {"device_peak": built.device_peak(), "others": built.others()}
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "peak": memory.peak(), **answer}), file=answers)
        if word == "end":
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
