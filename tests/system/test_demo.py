"""`make demo` ingests the handbook into a running service and runs queries on it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.servers import Served

ROOT = Path(__file__).resolve().parents[2]


def demo(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "demo"],
        cwd=ROOT,
        env={**os.environ, "RAGSTORE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_demo_finds_the_section_of_eleven_of_twelve_questions(service: Served) -> None:
    run = demo(service.url)
    assert run.returncode == 0, run.stderr
    assert "108 passages upserted" in run.stdout
    assert "\n11 of 12 questions found their section first\n" in run.stdout


def test_the_demo_can_be_run_again(service: Served) -> None:
    assert demo(service.url).returncode == 0
    again = demo(service.url)
    assert "layer = chunk       64" in again.stdout


def test_the_demo_without_a_service_fails_with_one_line() -> None:
    run = demo("http://127.0.0.1:1")
    assert run.returncode != 0
    assert len([line for line in run.stderr.splitlines() if "make" not in line]) == 1
