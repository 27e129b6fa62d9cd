"""Looks the pinned packages up in the advisory database of OSV, with pip-audit. `make audit` runs this.

It ends with 1 when a package has a known vulnerability. Where the database cannot be reached it says so in capitals and
ends with 0, since a machine without network must be able to run the checks; AUDIT=required makes that an error, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

FILES = ("embedded.txt", "build.txt", "dev.txt")
"""What the service runs with, and what it is built and tested with."""


def report(requirements: Path) -> tuple[list[dict[str, Any]] | None, str]:
    """Audit one file.

    Args:
        requirements: pinned packages with hashes.

    Returns:
        The packages with what is known of each, or None when nothing could be asked; and what pip-audit said last.
    """
    options = ("--vulnerability-service", "osv", "--disable-pip", "--require-hashes", "--format", "json")
    run = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options, "--requirement", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    last = (run.stderr.strip().splitlines() or [""])[-1]
    try:
        packages: list[dict[str, Any]] = json.loads(run.stdout)["dependencies"]
    except ValueError:
        return None, last
    return packages, last


def main() -> None:
    """Audit every file, and tell."""
    failed = False
    for name in FILES:
        packages, last = report(HERE / name)
        if packages is None:
            print(f"NOT AUDITED: requirements/{name}: the advisory database cannot be asked: {last}")
            failed |= os.environ.get("AUDIT") == "required"
            continue
        found = [(package, known) for package in packages for known in package.get("vulns", [])]
        print(f"audited: requirements/{name}: {len(packages)} packages, {len(found)} known vulnerabilities")
        for package, known in found:
            fixed = ", ".join(known["fix_versions"]) or "nothing yet"
            print(f"  {package['name']} {package['version']}: {known['id']}, fixed by {fixed}")
        failed |= bool(found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
