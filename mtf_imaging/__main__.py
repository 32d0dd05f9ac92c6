"""`python -m mtf_imaging COMMAND [flags]`: the same as `mtf-imaging COMMAND [flags]`."""

import sys

from mtf_imaging.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
