"""Looks the pinned packages up among known vulnerabilities: Python's with pip-audit over OSV, Node's with npm audit.

`make audit` runs this. It ends with 1 when a package has a known vulnerability. Where the databases cannot be reached
it says so in capitals and ends with 0, since a machine without network must be able to run the checks; AUDIT=required
makes that an error, too. Neither tool can look things up without a network (pip-audit's issue 698 asks for a way).
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

FILES = ("embedded.txt", "build.txt", "dev.txt", "docs.txt", "deploy.txt", "audit.txt")
"""What the service runs with, and what it is built, tested, documented and checked with."""

FOLDERS = (".", "clients/node")
"""Where package-lock.json pins packages of Node's."""


class Outcome(NamedTuple):
    """What came of one look-up.

    Attributes:
        packages: how many packages were looked up; None when nothing could be asked.
        found: a line for each known vulnerability.
        reason: why nothing could be asked.
    """

    packages: int | None
    found: list[str]
    reason: str = ""


def python_packages(requirements: Path) -> Outcome:
    """Look up what a file pins.

    Args:
        requirements: pinned packages with hashes.

    Returns:
        What came of it.
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
        return Outcome(None, [], (run.stderr.strip().splitlines() or ["no answer"])[-1])
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
    """Look up what a package-lock.json pins.

    Args:
        folder: where it is.

    Returns:
        What came of it.
    """
    try:
        run = subprocess.run(
            ["npm", "audit", "--package-lock-only", "--json"],  # npm is where the machine has it
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        told: dict[str, Any] = json.loads(run.stdout)
    except (OSError, ValueError) as error:
        return Outcome(None, [], f"npm audit cannot be run: {type(error).__name__}")
    if "vulnerabilities" not in told:
        return Outcome(None, [], str(told.get("message", "no answer")).splitlines()[0])
    found = [f"{name}: {known['severity']}, {known['range']}" for name, known in told["vulnerabilities"].items()]
    return Outcome(told["metadata"]["dependencies"]["total"], found)


def main() -> None:
    """Look everything up, and tell."""
    outcomes = {f"requirements/{name}": python_packages(HERE / name) for name in FILES}
    outcomes |= {f"{folder}/package-lock.json": node_packages(ROOT / folder) for folder in FOLDERS}
    for what, outcome in outcomes.items():
        if outcome.packages is None:
            print(f"NOT AUDITED: {what}: the database cannot be asked: {outcome.reason}")
        else:
            print(f"audited: {what}: {outcome.packages} packages, {len(outcome.found)} known vulnerabilities")
        for line in outcome.found:
            print(f"  {line}")
    missing = sum(outcome.packages is None for outcome in outcomes.values())
    found = sum(len(outcome.found) for outcome in outcomes.values())
    required = os.environ.get("AUDIT") == "required"
    if missing:
        rest = "" if required else " This is no error unless AUDIT=required is set, and no sign that all is well."
        print(f"NOT AUDITED: {missing} of {len(outcomes)} locks.{rest}")
    sys.exit(bool(found or (missing and required)))


if __name__ == "__main__":
    main()
