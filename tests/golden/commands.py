"""Runs command lines one after another, in one process or in several: `commands.py LINES.json`."""

import json
import sys
from pathlib import Path

import gin

from mtf_imaging.cli.main import main

if __name__ == "__main__":
    for line in json.loads(Path(sys.argv[1]).read_text()):
        gin.clear_config()
        print(" ".join(["mtf-imaging", *line]), flush=True)
        if code := main(line):
            sys.exit(code)
