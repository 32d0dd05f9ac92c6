"""Values of flags that several benchmarks take."""

import argparse


def whole_numbers(text: str) -> list[int]:
    """Returns the numbers of a list such as 1,2,3.

    Raises:
      argparse.ArgumentTypeError: a word is not a whole number.
    """
    words = text.split(",")
    if wrong := [word for word in words if not word.strip().isdecimal()]:
        raise argparse.ArgumentTypeError(f"'{wrong[0]}' is not a whole number. Fix: give a list such as 1,2,3.")
    return [int(word) for word in words]
