"""The service logs its start and its end, drains before it stops, and exits with 0 on both signals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers import START_SECONDS, Served, inherited_environ, running, start_service


def lines(served: Served) -> list[dict[str, Any]]:
    """The log lines."""
    # A killed service leaves a plain line of Python's resource tracker.
    return [json.loads(line) for line in served.log.read_text().splitlines() if line.startswith("{")]


def events(served: Served, name: str) -> list[dict[str, Any]]:
    """The log lines of an event."""
    return [line for line in lines(served) if line["event"] == name]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_start_and_end_are_logged_and_each_signal_exits_with_0(
    tmp_path: Path, chroma: Served, stop: signal.Signals
) -> None:
    address = chroma.url.replace("//", "//user:canary@")
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": address})) as served:
        served.process.send_signal(stop)
        assert served.process.wait(timeout=30) == 0
    (started,), (stopping,), (stopped,) = (events(served, name) for name in ("started", "stopping", "stopped"))
    assert started["address"] == served.url
    assert (started["store"], started["access"], started["pid"]) == ("remote", "open", served.process.pid)
    assert re.fullmatch(r"\d+\.\d+\.\d+", started["version"])
    assert started["chroma"] == chroma.url.replace("//", "//***@")
    assert stopping["reason"] == stopped["reason"] == (signal.SIGTERM if stop is signal.SIGHUP else stop).name
    assert stopped["requests_cut"] == 0
    assert "canary" not in served.log.read_text()


def test_embedded_chroma_is_named_by_its_folder_and_an_unclean_shutdown_is_logged_by_the_next_start(
    tmp_path: Path,
) -> None:
    with running(start_service(tmp_path)) as served:
        served.process.kill()
        served.process.wait(timeout=30)
    assert events(served, "started")[0]["data"] == str(tmp_path / "data")
    assert not events(served, "unclean shutdown")
    with running(start_service(tmp_path)) as served:
        assert served.stop() == 0
    assert len(events(served, "unclean shutdown")) == 1


@contextmanager
def on_a_terminal(folder: Path, chroma: Served) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The service on a free port with a terminal as its standard error, and the text on it until the hint."""
    reading, writing = pty.openpty()
    environ = {**inherited_environ(), "RAGSTORE_PORT": "0", "RAGSTORE_CHROMA_URL": chroma.url}
    process = subprocess.Popen([sys.executable, "-m", "ragstore", "serve"], stderr=writing, cwd=folder, env=environ)
    os.close(writing)
    try:
        text, deadline = "", time.monotonic() + START_SECONDS
        while "stops the service" not in text and time.monotonic() < deadline:
            text += os.read(reading, 65536).decode()
        yield process, text
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=30)
        os.close(reading)


def test_a_free_port_is_reported_and_a_terminal_gets_a_hint_what_to_try(tmp_path: Path, chroma: Served) -> None:
    with on_a_terminal(tmp_path, chroma) as (process, text):
        hint = re.search(r"^Try (http://127\.0\.0\.1:(\d+))/docs ", text, re.MULTILINE)
        assert hint is not None, text
        assert hint[2] != "0"
        assert httpx.get(f"{hint[1]}/health/ready", timeout=10).json() == {"status": "ready"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


def test_a_port_that_is_taken_ends_the_start_with_1(tmp_path: Path, chroma: Served) -> None:
    port = chroma.url.rpartition(":")[2]
    environ = {**inherited_environ(), "RAGSTORE_PORT": port, "RAGSTORE_CHROMA_URL": chroma.url}
    run = subprocess.run(
        [sys.executable, "-m", "ragstore", "serve"], capture_output=True, text=True, cwd=tmp_path, env=environ
    )
    assert run.returncode == 1
    assert "address already in use" in run.stderr


@pytest.fixture
def draining(tmp_path: Path, chroma: Served) -> Iterator[Served]:
    """A service with a long drain, which has just got its signal."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_DRAIN_SECONDS": "120"}
    with running(start_service(tmp_path, environ)) as served:
        served.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while httpx.get(f"{served.url}/health/ready").is_success:
            assert time.monotonic() < deadline
        yield served
        served.process.kill()


def test_a_draining_service_is_not_ready_and_serves_connections_that_are_opened_now(draining: Served) -> None:
    unready = httpx.get(f"{draining.url}/health/ready")
    assert (unready.status_code, unready.json()["status"]) == (503, "unready")
    for _ in range(3):
        with httpx.Client(base_url=draining.url) as fresh:
            response = fresh.get("/collections")
            assert response.status_code == 200
            assert response.headers["connection"] == "close"


def test_a_second_signal_ends_the_drain(draining: Served) -> None:
    draining.process.send_signal(signal.SIGTERM)
    assert draining.process.wait(timeout=30) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(draining.url.rpartition(":")[2])))


def test_the_drain_ends_by_itself(tmp_path: Path, chroma: Served) -> None:
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_DRAIN_SECONDS": "0.5"}
    with running(start_service(tmp_path, environ)) as served:
        assert served.stop() == 0
    assert events(served, "stopped")[0]["seconds"] >= 0.5


def test_probes_and_scrapes_are_logged_at_debug_only(tmp_path: Path, chroma: Served) -> None:
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})) as served:
        for path in ("/health/live", "/health/ready", "/health", "/metrics", "/collections"):
            assert httpx.get(served.url + path).is_success
        assert served.stop() == 0
    assert {line["path"] for line in events(served, "request")} == {"/collections"}


def test_a_server_error_is_a_warning_with_its_problem(tmp_path: Path) -> None:
    environ = {"RAGSTORE_CHROMA_URL": "http://127.0.0.1:9", "RAGSTORE_LOG_LEVEL": "warning"}
    with running(start_service(tmp_path, environ, ready=False)) as served:
        assert httpx.get(f"{served.url}/collections").status_code == 503
        assert httpx.get(f"{served.url}/nowhere").status_code == 404
        assert served.stop() == 0
    (line,) = events(served, "request")
    assert (line["level"], line["status"], line["code"]) == ("warning", 503, "chroma_unavailable")
    assert line["problem"] == "Chroma cannot be reached"
    assert "refused" in line["cause"]
