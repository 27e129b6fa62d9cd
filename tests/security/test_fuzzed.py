"""Schemathesis calls every operation of the OpenAPI document without a key and with invalid ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.keyed_services import KeyedService

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


def test_every_operation_enforces_the_keys_that_the_document_declares(keyed: KeyedService) -> None:
    run = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("--config-file", str(ROOT / "schemathesis.toml")),
            *("run", f"{keyed.served.url}/openapi.json", "--url", keyed.served.url),
            *("--header", f"Authorization: Bearer {keyed.keys['reader']}"),
            *("--checks", "ignored_auth", "--phases", "examples,fuzzing", "--max-examples", "3", "--max-time", "8"),
            *("--continue-on-failure", "--no-color"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    cases = re.search(r"(\d+) generated", run.stdout)
    assert cases is not None
    assert int(cases[1]) >= 19, run.stdout  # at least one for each operation


def test_the_openapi_document_of_a_service_with_keys_declares_them(keyed: KeyedService) -> None:
    with keyed.client(None) as http:
        document = http.get("/openapi.json").json()
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]
