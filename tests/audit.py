"""Compares the installed packages with an index of known vulnerabilities, by pip-audit.

Run `python -m tests.audit PATH_OF_PIP_AUDIT`, or `make audit`. Behind a mirror without the index, pip-audit skips every
package and ends without an error. Here, this is an error.
"""

import json
import subprocess
import sys
import sysconfig

UNREACHABLE = (
    "The index of vulnerabilities cannot be reached, so nothing was audited ({}). "
    "Fix: run make audit on a machine that reaches the public index of packages."
)
OWN = "mtf-imaging"  # in no index


def summarize(printed: str, errors: str) -> tuple[str, int]:
    """Returns a summary of a run of pip-audit, and the exit status of this program.

    Args:
      printed: its output, JSON.
      errors: its messages.
    """
    try:
        packages = json.loads(printed)["dependencies"]
    except (ValueError, KeyError, TypeError):
        *_, last = errors.strip().splitlines() or ["pip-audit printed nothing"]
        return UNREACHABLE.format(last), 2
    skipped = [package for package in packages if "skip_reason" in package and package["name"] != OWN]
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        reason = skipped[0]["skip_reason"] if skipped else "no packages were found"
        return UNREACHABLE.format(reason), 2
    lines = []
    for package in audited:
        for fault in package["vulns"]:
            fixed = ", ".join(fault["fix_versions"]) or "no version"
            lines.append(f"{package['name']} {package['version']}: {fault['id']}, fixed in {fixed}")
    lines += [f"{package['name']}: not audited ({package['skip_reason']})" for package in skipped]
    vulnerable = sum(bool(package["vulns"]) for package in audited)
    lines.append(
        f"{len(audited)} packages audited, {vulnerable} with known vulnerabilities, {len(skipped)} not audited"
    )
    return "\n".join(lines), int(bool(vulnerable or skipped))


def main(program: str) -> int:
    """Audits the packages of this environment, and returns the exit status.

    Args:
      program: path of pip-audit, which may be in another environment.
    """
    folder = sysconfig.get_path("purelib")
    command = [program, "--path", folder, "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text, status = summarize(done.stdout, done.stderr)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
