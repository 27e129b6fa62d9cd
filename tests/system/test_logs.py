"""The log: JSON lines in production, readable lines in a terminal, and no delay of requests."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers import Served, free_port, running, start_service

LONG = "x" * 40_000
"""Part of a path. A log line contains the path, so that a few requests make a long log."""


@contextmanager
def started(folder: Path, environ: Mapping[str, str], stderr: int) -> Iterator[Served]:
    """A service with the given file descriptor as its standard error."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ragstore", "serve"],
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd=folder,
        env={**inherited, "RAGSTORE_PORT": str(port), **environ},
    )
    served = Served(f"http://127.0.0.1:{port}", process, folder / "none.log")
    served.log.touch()
    with running(served):
        served.wait_until_ready("/health/ready")
        yield served


def dropped(http: httpx.Client, kind: str) -> int:
    """The number of dropped lines according to the metrics."""
    found = re.search(
        rf'^ragstore_log_lines_dropped_total{{kind="{kind}"}} (\S+)$', http.get("/metrics").text, re.MULTILINE
    )
    assert found is not None
    return int(float(found[1]))


def parse(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_service_continues_when_its_log_is_not_read_and_logs_later_how_many_lines_were_dropped(
    tmp_path: Path, chroma: Served
) -> None:
    reading, writing = os.pipe()
    with started(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url}, writing) as served:
        os.close(writing)
        with httpx.Client(base_url=served.url, timeout=10) as http:
            assert {http.get(f"/{LONG}").status_code for _ in range(200)} == {404}
            lost = dropped(http, "log")
            assert lost > 0
            # Audit lines are not dropped: they have a buffer of their own.
            for number in range(50):
                assert http.post("/collections", json={"name": f"unread-{number}"}).status_code == 201
                http.delete(f"/collections/unread-{number}").raise_for_status()
            assert dropped(http, "audit") == 0
        # Now the log is read to its end.
        served.process.terminate()
        with os.fdopen(reading, "rb") as log:
            logged = parse(log.read().decode())
        assert served.process.wait(timeout=30) == 0
    assert sum(line["event"] == "audit" for line in logged) == 100
    (summary,) = [line for line in logged if line["event"] == "log lines were dropped"]
    assert summary["lines"] >= lost
    assert summary["audit_lines"] == 0


def test_the_service_stops_although_its_log_is_not_read(tmp_path: Path, chroma: Served) -> None:
    reading, writing = os.pipe()
    with started(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url}, writing) as served:
        os.close(writing)
        for _ in range(10):
            httpx.get(f"{served.url}/{LONG}", timeout=10)
        served.process.terminate()
        assert served.process.wait(timeout=30) == 0
    os.close(reading)


def test_the_service_continues_when_the_reader_of_its_log_is_gone(tmp_path: Path, chroma: Served) -> None:
    reading, writing = os.pipe()
    with started(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url}, writing) as served:
        os.close(writing)
        os.close(reading)
        with httpx.Client(base_url=served.url, timeout=10) as http:
            assert {http.get("/collections").status_code for _ in range(20)} == {200}
            assert dropped(http, "log") > 0


def test_no_line_is_lost_when_the_service_stops(tmp_path: Path, chroma: Served) -> None:
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})) as served:
        with httpx.Client(base_url=served.url) as http:
            for number in range(300):
                http.get("/", headers={"X-Request-ID": f"request-{number}"})
        assert served.stop() == 0
    logged = [line.get("request_id", "") for line in parse(served.log.read_text())]
    assert [name for name in logged if name.startswith("request-")] == [f"request-{number}" for number in range(300)]


@pytest.mark.parametrize("store", ["embedded", "remote"])
def test_every_line_is_json_also_those_of_libraries(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    chroma = {"RAGSTORE_CHROMA_URL": request.getfixturevalue("chroma").url} if store == "remote" else {}
    with running(start_service(tmp_path, chroma)) as served:
        httpx.get(f"{served.url}/collections")
        with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2]))) as connection:
            connection.sendall(b"this is no HTTP\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400")
        assert served.stop() == 0
    logged = parse(served.log.read_text())
    assert {"request", "Invalid HTTP request received."} <= {line["event"] for line in logged}
    assert all({"event", "level", "timestamp"} <= line.keys() for line in logged)


def test_warnings_of_libraries_are_json_lines() -> None:
    code = (
        "import warnings; from ragstore.kit import logging as logs; "
        "logs.configure('info', 'json', 'ragstore'); warnings.warn('soon gone', DeprecationWarning, stacklevel=1); "
        "warnings.simplefilter('always'); warnings.warn('soon gone', stacklevel=1)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ["soon gone" in line["event"] for line in parse(run.stderr)] == [True] * len(run.stderr.splitlines())
    assert "soon gone" in run.stderr


def in_terminal(folder: Path, environ: Mapping[str, str], chroma: Served) -> str:
    """The output of the service in a terminal, up to the log line of one request."""
    ours, theirs = pty.openpty()
    with started(folder, {"RAGSTORE_CHROMA_URL": chroma.url, **environ}, theirs) as served:
        os.close(theirs)
        httpx.get(f"{served.url}/collections", headers={"X-Request-ID": "seen"})
        seen = b""
        while b"seen" not in seen:
            seen += os.read(ours, 65536)
    os.close(ours)
    return seen.decode()


def test_in_a_terminal_lines_are_human_readable(tmp_path: Path, chroma: Served) -> None:
    line = next(line for line in in_terminal(tmp_path, {}, chroma).splitlines() if "seen" in line)
    assert not line.startswith("{")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    assert "path=/collections" in plain
    assert "status=200" in plain


def test_json_is_available_in_a_terminal(tmp_path: Path, chroma: Served) -> None:
    seen = in_terminal(tmp_path, {"RAGSTORE_LOG_FORMAT": "json"}, chroma)
    line = next(line for line in seen.splitlines() if "seen" in line)
    assert json.loads(line)["path"] == "/collections"


def test_human_readable_lines_are_available_without_a_terminal(tmp_path: Path, chroma: Served) -> None:
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_LOG_FORMAT": "console"}
    with running(start_service(tmp_path, environ)) as served:
        httpx.get(f"{served.url}/collections")
        assert served.stop() == 0
    assert "{" not in served.log.read_text()
