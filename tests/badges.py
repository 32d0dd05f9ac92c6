"""Draws the badges of the README from setup.py, as files of the repository: no page loads them from a service.

Run `python -m tests.badges` after a change of the versions or the license. `test_release_files.py` compares them.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/pictures/badges"
_TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {value}">
  <title>{name}: {value}</title>
  <rect width="{width}" height="20" rx="3" fill="#555"/>
  <path d="M{split} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{rest}z" fill="#0072b2"/>
  <g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
    <text x="6" y="14" textLength="{name_width}">{name}</text>
    <text x="{value_x}" y="14" textLength="{value_width}">{value}</text>
  </g>
</svg>
"""


def setup_arguments() -> dict[str, Any]:
    """Returns the arguments of `setuptools.setup` in setup.py."""
    program = (
        "import json, runpy, setuptools; setuptools.setup = lambda **words: print(json.dumps(words, default=str)); "
    )
    program += "runpy.run_path('setup.py')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def draw(name: str, value: str) -> str:
    """Returns a badge with a name and a value, as SVG."""
    name_width, value_width = (round(6.4 * len(text)) for text in (name, value))  # 6.4 pixels per letter on average
    split = name_width + 12
    return _TEMPLATE.format(
        name=name,
        value=value,
        name_width=name_width,
        value_width=value_width,
        split=split,
        value_x=split + 6,
        width=split + value_width + 12,
        rest=value_width + 9,
    )


def badges(arguments: dict[str, Any]) -> dict[str, str]:
    """Returns {file name: SVG}.

    Args:
      arguments: those of `setuptools.setup`.
    """
    classifiers = arguments["classifiers"]
    versions = [name.rpartition(" ")[2] for name in classifiers if "Python :: 3." in name]
    (platform,) = [name.rpartition(" ")[2] for name in classifiers if name.startswith("Operating System")]
    return {
        "python.svg": draw("Python", " | ".join(versions)),
        "license.svg": draw("license", arguments["license_expression"]),
        "platform.svg": draw("tested on", platform),
        "typed.svg": draw("types", "py.typed"),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in badges(setup_arguments()).items():
        (FOLDER / file).write_text(text)
