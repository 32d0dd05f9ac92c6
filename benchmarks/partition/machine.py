"""Describes the machine and software behind a result."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

_PACKAGES = ("tensorflow", "mesh-tensorflow", "numpy", "mtf-imaging")


def versions() -> dict:
    """Returns the versions of Python, the packages and this repository."""
    versions = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _output_lines("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    return {**versions, **({"commit": commit[0]} if commit else {})}


def machine() -> dict:
    """Returns the processor, the cores available to this process, the memory, the GPUs and the operating system."""
    return {
        "processor": _read("/proc/cpuinfo", r"model name\s*: (.+)") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": int(_read("/proc/meminfo", r"MemTotal:\s*(\d+) kB") or 0) / 2**20,
        "gpus": _output_lines("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _read(path, pattern):
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return match and match[1]


def _output_lines(*command):
    """Returns the lines that a command prints; [] if it fails or does not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
