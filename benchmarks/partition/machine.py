"""Where a result is from."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

_PACKAGES = ("tensorflow", "mesh-tensorflow", "numpy", "mtf-imaging")


def versions() -> dict:
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _said("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    return {**found, **({"commit": commit[0]} if commit else {})}


def machine() -> dict:
    """Processor, cores that this process may use, memory, GPUs and system."""
    return {
        "processor": _read("/proc/cpuinfo", r"model name\s*: (.+)") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": int(_read("/proc/meminfo", r"MemTotal:\s*(\d+) kB") or 0) / 2**20,
        "gpus": _said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _read(path, pattern):
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return match and match[1]


def _said(*command):
    """The lines that a command prints; [] where there is none."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
