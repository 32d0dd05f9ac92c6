"""`mtf-imaging COMMAND [flags]`: the entry point, which imports the rest later, so that Ctrl-C works at any moment."""

import sys


def main(argv: list[str] | None = None) -> int:
    """Runs a command line.

    Args:
      argv: the words after `mtf-imaging`; None for the words of this process.

    Returns:
      The exit code: 0 for success, 1 if the command failed, 2 if the command line or the configuration is wrong, 75 if
      a scheduler stopped the command early and the same command line resumes it, 130 after Ctrl-C. `launch` returns
      the exit code of the program that it runs.
    """
    try:
        from mtf_imaging.cli.runtime.interrupts import Interrupts

        with Interrupts(stays=argv is None) as interrupts:
            from mtf_imaging.cli.dispatch import run

            code = run(sys.argv[1:] if argv is None else argv, interrupts)
    except KeyboardInterrupt:  # during an import, or while a failure is reported
        print("mtf-imaging: interrupted.", file=sys.stderr)
        code = 130
    return code


if __name__ == "__main__":
    sys.exit(main())
