"""Check the pinned packages for known vulnerabilities: Python's with pip-audit over OSV, Node's with npm audit.

`make audit` runs this. It exits with 1 if a package has a known vulnerability. If the databases cannot be reached, it
prints a warning in capitals and exits with 0, since a machine without network must be able to run the checks;
AUDIT=required makes that an error, too. Neither tool works without a network (requested in pip-audit's issue 698).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parents[1] / "requirements"
ROOT = HERE.parent

FILES = (
    "embedded.txt",
    "build.txt",
    "dev.txt",
    "docs.txt",
    "deploy.txt",
    "audit.txt",
    "litellm.txt",
    "page.txt",
    "agents.txt",
)
"""Lock files of the service, and of its build, tests, documentation and checks."""

FOLDERS = (".", "page", "clients/node", "tests/node/ecosystem")
"""Folders with a package-lock.json."""


class Outcome(NamedTuple):
    """The result of one audit.

    Attributes:
        packages: number of audited packages; None if the database could not be reached.
        found: a line for each known vulnerability.
        reason: why the audit was not possible.
    """

    packages: int | None
    found: list[str]
    reason: str = ""


def python_packages(requirements: Path) -> Outcome:
    """Audit the packages that a requirements file pins.

    Args:
        requirements: pinned packages with hashes.

    Returns:
        The known vulnerabilities, or why there was no audit.
    """
    options = ("--vulnerability-service", "osv", "--disable-pip", "--require-hashes", "--format", "json")
    run = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options, "--requirement", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        packages: list[dict[str, Any]] = json.loads(run.stdout)["dependencies"]
    except ValueError:
        return Outcome(None, [], (run.stderr.strip().splitlines() or ["no response"])[-1])
    return Outcome(
        len(packages),
        [
            f"{package['name']} {package['version']}: {known['id']}, fixed by "
            f"{', '.join(known['fix_versions']) or 'nothing yet'}"
            for package in packages
            for known in package.get("vulns", [])
        ],
    )


def node_packages(folder: Path) -> Outcome:
    """Audit the packages that a package-lock.json pins.

    Args:
        folder: the folder of the file.

    Returns:
        The known vulnerabilities, or why there was no audit.
    """
    try:
        run = subprocess.run(
            ["npm", "audit", "--package-lock-only", "--json"],  # found on the PATH
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        report: dict[str, Any] = json.loads(run.stdout)
    except (OSError, ValueError) as error:
        return Outcome(None, [], f"npm audit cannot be run: {type(error).__name__}")
    if "vulnerabilities" not in report:
        return Outcome(None, [], str(report.get("message", "no response")).splitlines()[0])
    found = [f"{name}: {known['severity']}, {known['range']}" for name, known in report["vulnerabilities"].items()]
    return Outcome(report["metadata"]["dependencies"]["total"], found)


def main() -> None:
    """Audit all locks, and print the results."""
    outcomes = {f"requirements/{name}": python_packages(HERE / name) for name in FILES}
    outcomes |= {f"{folder}/package-lock.json": node_packages(ROOT / folder) for folder in FOLDERS}
    for lock, outcome in outcomes.items():
        if outcome.packages is None:
            print(f"NOT AUDITED: {lock}: the database cannot be reached: {outcome.reason}")
        else:
            print(f"audited: {lock}: {outcome.packages} packages, {len(outcome.found)} known vulnerabilities")
        for line in outcome.found:
            print(f"  {line}")
    missing = sum(outcome.packages is None for outcome in outcomes.values())
    found = sum(len(outcome.found) for outcome in outcomes.values())
    required = os.environ.get("AUDIT") == "required"
    if missing:
        rest = (
            ""
            if required
            else " This is an error only if AUDIT=required is set. It does not mean that there are no vulnerabilities."
        )
        print(f"NOT AUDITED: {missing} of {len(outcomes)} locks.{rest}")
    sys.exit(bool(found or (missing and required)))


if __name__ == "__main__":
    main()
