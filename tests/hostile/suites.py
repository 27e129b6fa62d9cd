"""Areas of the campaign that are suites of tests: keys, faults and quotas."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.hostile.findings import Findings
from tests.hostile.memory_limit import MemoryLimit
from tests.support.pages import ROOT

SUITE_SECONDS: Final = 3600
_OUTCOMES: Final = re.compile(r"(\d+) (passed|failed|error|errors)\b")


@dataclass(frozen=True)
class Suite:
    """Tests of one area, which start services of their own over each store.

    Attributes:
        tests: arguments of pytest.
        environ: variables for it.
    """

    tests: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


SUITES: Final[dict[str, Suite]] = {
    "keys": Suite(
        (
            *("tests/security/test_keys.py", "tests/security/test_key_file.py", "tests/security/test_scopes.py"),
            *("tests/security/test_tenants.py", "tests/security/test_hardening.py", "tests/security/test_binding.py"),
            *("tests/security/test_audit.py", "tests/hostile/test_odd_requests.py"),
        )
    ),
    "faults": Suite(
        (
            *("tests/system/test_faults_callers.py", "tests/system/test_faults_ingestion_streams.py"),
            *("tests/system/test_faults_network.py", "tests/system/test_faults_processes.py"),
            *("tests/system/test_faults_replicas.py", "tests/system/test_faults_streams.py"),
            *(
                "tests/system/test_chroma_process.py",
                "tests/system/test_lifecycle.py",
                "tests/contract/test_poisoned.py",
            ),
        )
    ),
    "quotas": Suite(("tests/store",), {"QUOTA_STORES": "true"}),
}


def run_suite(area: str, suite: Suite, memory_mib: int) -> Findings:
    """Run the tests of an area under a memory limit for pytest, Chroma and the services together."""
    findings = Findings()
    memory = MemoryLimit(memory_mib * 2**20)
    command = [
        *(*memory.prefix, sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
        *("--no-header", "--tb=short", *suite.tests),
    ]
    with tempfile.TemporaryFile("w+") as output:
        try:
            code = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=Path(ROOT),
                env={**os.environ, **suite.environ},
                timeout=SUITE_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
        output.seek(0)
        lines = output.read().splitlines()
    outcomes = {kind: count for count, kind in _OUTCOMES.findall(lines[-1] if lines else "")}
    findings.figures[f"{area}, tests passed"] = outcomes.get("passed", "0")
    findings.figures[f"{area}, memory limit"] = f"{memory_mib} MiB ({memory.kind})"
    findings.expect(code == 0, f"{area}: exit code {code}: " + "; ".join(_failures(lines)))
    findings.expect(not memory.was_exceeded, f"{area}: the memory limit was exceeded")
    memory.close()
    return findings


def _failures(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
