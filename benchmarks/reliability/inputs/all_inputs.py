"""All bad inputs, in the order of the page."""

from benchmarks.reliability.inputs import headers
from benchmarks.reliability.inputs.bad_input import BadInput

INPUTS: tuple[BadInput, ...] = tuple([*headers.INPUTS])
