"""The badges of the README state what the metadata of the package states."""

import re
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]


def test_the_badges_match_the_metadata():
    setup, readme = ((ROOT / name).read_text() for name in ("setup.py", "README.md"))
    badges = dict(re.findall(r"img\.shields\.io/badge/(\w+)-(\S+)-blue\)", readme))
    first, last = re.search(r'python_requires=">=3\.(\d+),<3\.(\d+)"', setup).groups()
    versions = " | ".join(f"3.{minor}" for minor in range(int(first), int(last)))
    assert unquote(badges["python"]) == versions
    least, limit = re.search(r'"tensorflow>=2\.(\d+),<2\.(\d+)"', setup).groups()
    assert unquote(badges["tensorflow"]) == f"2.{least} to 2.{int(limit) - 1}"
    assert badges["license"].replace("--", "-") in setup
    assert len(badges) == len(re.findall(r"img\.shields\.io", readme))
