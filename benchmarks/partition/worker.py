"""A contender's process: it imports, builds, and then takes a step whenever it is told to.

It reads words, a line each, and answers each with a line of JSON: "load", "build", "step", and "end".
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
    """What a worker's process is started with, after the interpreter."""
    return ["-m", "benchmarks.partition.worker", str(contender), json.dumps(dataclasses.asdict(step))]


def main(name: str, step: str) -> None:
    """Serves the contender of that name until it is told to end, or its parent is gone."""
    # What the contender's libraries print goes to stderr; answers alone go to what was stdout.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    fields = json.loads(step)
    contender, step = Contender.parse(name), Step(**{**fields, "sizes": tuple(fields["sizes"])})
    built = None
    for line in sys.stdin:
        word, answer, begin = line.strip(), {}, time.perf_counter()
        if word == "load":
            built = contender.load(step)
            answer = {"others": built.others()}
        elif word == "build":
            built.build()
            answer = {"nodes": built.nodes}
        elif word == "step":
            answer = {"loss": built.take()}
        elif word == "end":
            answer = {"device_peak": built.device_peak(), "others": built.others()}
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "peak": memory.peak(), **answer}), file=answers)
        if word == "end":
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
