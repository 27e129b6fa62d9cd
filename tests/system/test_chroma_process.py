"""The end of embedded Chroma's process is in the log and in the metrics."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.metric_samples import samples
from tests.support.processes import chroma_process_of
from tests.support.servers import Served, running, start_service


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service over embedded Chroma."""
    environ = {"RAGSTORE_CHROMA_TIMEOUT_SECONDS": "3"}
    with running(start_service(tmp_path_factory.mktemp("process"), environ)) as served:
        yield served


def measured(served: Served) -> dict[str, float]:
    """The metrics."""
    with httpx.Client(base_url=served.url) as http:
        return samples(http)


def ends(served: Served) -> list[dict[str, Any]]:
    """The log lines about the end of a process."""
    logged = [json.loads(line) for line in served.log.read_text().splitlines()]
    return [line for line in logged if line["event"] == "chroma process ended"]


def end_of(served: Served, process_id: int) -> dict[str, Any]:
    """The log line about the end of a process, once it is there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for line in ends(served):
            if line["pid"] == process_id:
                return line
        time.sleep(0.05)
    raise AssertionError(served.log.read_text())


@pytest.mark.parametrize(
    ("sent", "reason"), [(signal.SIGKILL, "killed; out of memory?"), (signal.SIGSEGV, None), (signal.SIGABRT, None)]
)
def test_the_end_of_the_process_is_logged_with_its_signal_while_it_is_idle(
    embedded: Served, sent: signal.Signals, reason: str | None
) -> None:
    embedded.wait_until_ready("/health/ready")
    process_id = chroma_process_of(embedded)
    os.kill(process_id, sent)
    line = end_of(embedded, process_id)
    assert (line["level"], line["exit_code"], line["signal"]) == ("warning", -sent, sent.name)
    assert line.get("reason") == reason


def test_a_restart_is_counted_and_the_metrics_are_those_of_the_new_process(embedded: Served) -> None:
    embedded.wait_until_ready("/health/ready")
    before = measured(embedded)["ragstore_chroma_process_starts_total"]
    process_id = chroma_process_of(embedded)
    os.kill(process_id, signal.SIGKILL)
    end_of(embedded, process_id)
    embedded.wait_until_ready("/health/ready")
    found = measured(embedded)
    assert found["ragstore_chroma_process_starts_total"] == before + 1
    pages = int(Path(f"/proc/{chroma_process_of(embedded)}/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    assert found["ragstore_chroma_process_resident_memory_bytes"] == pytest.approx(resident, rel=0.2)
    assert found["ragstore_chroma_process_cpu_seconds_total"] > 0
    assert found["ragstore_data_volume_bytes"] >= found["ragstore_data_volume_free_bytes"] > 0


def test_a_hung_process_is_killed_with_a_log_line_that_says_why(embedded: Served) -> None:
    embedded.wait_until_ready("/health/ready")
    process_id = chroma_process_of(embedded)
    os.kill(process_id, signal.SIGSTOP)
    deadline = time.monotonic() + 60
    while not any(line["pid"] == process_id for line in ends(embedded)):
        httpx.get(f"{embedded.url}/collections", timeout=30)
        assert time.monotonic() < deadline
    assert end_of(embedded, process_id)["reason"] == "no call completed within 3 s"


def test_a_requested_stop_logs_no_end_of_the_process(tmp_path: Path) -> None:
    with running(start_service(tmp_path)) as served:
        assert served.stop() == 0
    assert not ends(served)


def test_a_service_over_a_server_has_no_metrics_of_a_process(tmp_path: Path, chroma: Served) -> None:
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})) as served:
        text = httpx.get(f"{served.url}/metrics").text
    assert "ragstore_chroma_process_resident" not in text
    assert "ragstore_data_volume" not in text
