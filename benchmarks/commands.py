"""Commands of the package that a benchmark runs."""

from mtf_imaging.cli.runtime import subprocesses
from mtf_imaging.errors import MtfImagingError


def run_command(command: str, **values) -> None:
    """Runs a command of the package and prints its words first.

    The command prints its own message if it fails or is stopped. The benchmark then ends without a traceback.

    Args:
      command: the name of the command.
      **values: its flags; a list repeats its flag.

    Raises:
      SystemExit: the command failed or was stopped.
    """
    try:
        subprocesses.run_command(command, **values)
    except (MtfImagingError, KeyboardInterrupt) as error:
        raise SystemExit(str(error)) from None
